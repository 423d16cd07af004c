#pragma once

#include <ATen/Parallel.h>

// at::parallel_for is a template that runs on one thread unless the file that uses it is compiled for OpenMP: CMakeLists.txt lists those.
#ifndef _OPENMP
#error "without -fopenmp at::parallel_for runs on one thread"
#endif
