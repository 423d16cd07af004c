#pragma once

#include "axonn/comm/environment.hpp"

namespace axonn {

// The job of a test program that runs under mpirun (axonn_test with NP); every rank runs every
// test.
Environment& test_environment();

}  // namespace axonn
