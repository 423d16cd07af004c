#include "comm/loaded_libraries.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using Names = std::vector<std::string>;

TEST(LoadedLibraries, OpenMpRunTimesAreKnownByName) {
  const Names all = {"/a/libc.so.6", "/a/libgomp.so.1", "/a/libtorch_cpu.so"};
  EXPECT_EQ(openmp_run_times(all), Names{"/a/libgomp.so.1"});
  for (const char* name : {"/a/libgomp-a34b3233.so.1", "/a/libiomp5.so", "/a/libomp.so.5", "/a/libomp-14.so.5"})
    EXPECT_EQ(openmp_run_times({name}), Names{name});
  for (const char* name : {"/a/libompitrace.so.40", "/a/libgomp-plugin-nvptx.so.1", "/libgomp/libz.so"})
    EXPECT_EQ(openmp_run_times({name}), Names{});
}

TEST(LoadedLibraries, OneFileUnderTwoNamesIsOne) {
  const test::Scratch scratch;
  std::ofstream(scratch.path() / "libomp.so.5") << "x";
  std::filesystem::create_symlink("libomp.so.5", scratch.path() / "libgomp.so.1");
  const Names names = {scratch.path() / "libomp.so.5", scratch.path() / "libgomp.so.1"};
  EXPECT_EQ(openmp_run_times(names).size(), 1u);
  EXPECT_NO_THROW(check_one_openmp(names));
}

TEST(LoadedLibraries, TwoOpenMpRunTimesAreRefused) {
  EXPECT_NO_THROW(check_one_openmp({}));
  EXPECT_NO_THROW(check_one_openmp({"/a/libgomp.so.1"}));
  EXPECT_USER_ERROR(check_one_openmp({"/a/libgomp.so.1", "/b/libiomp5.so"}), "/a/libgomp.so.1 and /b/libiomp5.so",
                    "LD_PRELOAD");
  EXPECT_USER_ERROR(check_one_openmp({"/a/libgomp.so.1", "/b/libgomp.so.1"}), "/a/libgomp.so.1 and /b/libgomp.so.1");
}

TEST(LoadedLibraries, AnotherLibTorchIsRefused) {
  for (const char* loaded : {"2.11.0", "2.11.1", "2.11.0a0+git1234"})
    EXPECT_NO_THROW(check_libtorch("2.11", loaded, {}));
  EXPECT_USER_ERROR(check_libtorch("2.11", "2.10.0", {"/x/lib/libc10.so", "/x/lib/libtorch_cpu.so"}),
                    "LibTorch 2.10.0 is loaded from /x/lib/libtorch_cpu.so", "built with 2.11", "AXONN_LIBTORCH");
  EXPECT_USER_ERROR(check_libtorch("2.1", "2.11.0", {}), "built with 2.1:");
  EXPECT_USER_ERROR(check_libtorch("2.11", "unknown", {}), "LibTorch unknown is loaded,");
}

TEST(LoadedLibraries, ThisProcessPasses) {
  EXPECT_EQ(openmp_run_times(loaded_libraries()).size(), 1u);
  EXPECT_NO_THROW(check_loaded_libraries());
}

}  // namespace
}  // namespace axonn
