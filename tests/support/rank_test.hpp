#pragma once

#include "axonn/comm/environment.hpp"

namespace axonn {

// The job of a test program that runs under mpirun (axonn_test with NP); every rank runs every
// test.
Environment& test_environment();

// The nightly run, AXONN_TEST_NIGHTLY=1: a test takes all of its cases, however long.
bool tests_everything();

}  // namespace axonn
