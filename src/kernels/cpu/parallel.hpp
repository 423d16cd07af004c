#pragma once

#include <ATen/Parallel.h>

// at::parallel_for is a template: it runs on one thread unless the file that uses it is compiled
// with OpenMP. CMakeLists.txt lists those files.
#ifndef _OPENMP
#error "without -fopenmp at::parallel_for runs on one thread"
#endif
