#include "comm/loaded_libraries.hpp"

#include <algorithm>
#include <filesystem>

#include <caffe2/core/common.h>
#include <link.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

bool is_openmp(const std::string& path) {
  const std::string name = file_name(path);
  if (name.starts_with("libgomp-plugin")) return false;  // GCC's own, for devices
  // libgomp.so.1, libgomp-a34b3233.so.1 of a wheel; not OpenMPI's libompitrace.
  const auto is = [&](std::string_view stem) {
    return name.starts_with(stem) && name.find_first_of(".-") == stem.size();
  };
  return is("libgomp") || is("libiomp5") || is("libomp") || is("libomp5");
}

}  // namespace

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> libraries;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        if (info->dlpi_name[0] != '\0') static_cast<std::vector<std::string>*>(out)->emplace_back(info->dlpi_name);
        return 0;
      },
      &libraries);
  return libraries;
}

std::vector<std::string> openmp_run_times(const std::vector<std::string>& libraries) {
  std::vector<std::string> found;
  for (const std::string& library : libraries) {
    if (!is_openmp(library)) continue;
    std::error_code absent;
    const auto file = std::filesystem::weakly_canonical(library, absent);
    const std::string name = absent ? library : file.string();
    if (std::ranges::find(found, name) == found.end()) found.push_back(name);
  }
  return found;
}

void check_one_openmp(const std::vector<std::string>& libraries) {
  const auto found = openmp_run_times(libraries);
  AXONN_CHECK(found.size() < 2, "comm.environment", "two OpenMP run times are loaded, ", found[0], " and ", found[1],
              ", and each would start its own threads on the same cores: link only the one that comes with LibTorch "
              "(axonn::libtorch names it), and take the other out of the link or of LD_PRELOAD");
}

void check_libtorch(std::string_view built_with, std::string_view loaded, const std::vector<std::string>& libraries) {
  if (loaded.starts_with(std::string(built_with) + ".")) return;
  const auto file = std::ranges::find(libraries, "libtorch_cpu.so", file_name);
  const std::string from = file == libraries.end() ? "" : " from " + *file;
  throw UserError("comm.environment",
                  detail::concatenate("LibTorch ", loaded, " is loaded", from, ", and axonn was built with ",
                                      built_with, ": let LD_LIBRARY_PATH name the folder of a LibTorch ", built_with,
                                      ", or build axonn and this program with the loaded one (-DAXONN_LIBTORCH=DIR)"));
}

void check_loaded_libraries() {
  const auto libraries = loaded_libraries();
  // at::show_config() reports the version too, but it queries CUDA for devices.
  check_libtorch(AXONN_LIBTORCH_VERSION, caffe2::GetBuildOptions().at("TORCH_VERSION"), libraries);
  check_one_openmp(libraries);
}

}  // namespace axonn
