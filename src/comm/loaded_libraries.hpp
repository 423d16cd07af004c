#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace axonn {

// Checks the libraries that this process has loaded against those that axonn was built with. The
// loader finds libraries through LD_LIBRARY_PATH, LD_PRELOAD and the needs of other libraries. So a
// program that linked well can start with another LibTorch, or with a second OpenMP whose threads
// take the same cores.

// Files of all libraries in this process.
std::vector<std::string> loaded_libraries();

// Those of `libraries` that are an OpenMP run time (GCC's, Intel's or LLVM's), each file once.
std::vector<std::string> openmp_run_times(const std::vector<std::string>& libraries);

// Throws UserError when `libraries` hold more than one OpenMP run time.
void check_one_openmp(const std::vector<std::string>& libraries);

// Throws UserError unless version `loaded` ("2.11.0") belongs to `built_with` ("2.11"). The error
// names the file from `libraries`.
void check_libtorch(std::string_view built_with, std::string_view loaded, const std::vector<std::string>& libraries);

// All of these checks, for this process.
void check_loaded_libraries();

}  // namespace axonn
