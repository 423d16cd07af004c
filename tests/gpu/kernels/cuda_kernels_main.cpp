// cuda_kernels_test: our kernels, as nvcc compiled them, one by one on a device.
#include <cstdio>
#include <string_view>

#include <gtest/gtest.h>

#include "gpu/kernels/device_memory.hpp"
#include "gpu/kernels/kernel_case.hpp"
#include "gpu/kernels/kernel_memory.hpp"

namespace {

constexpr const char* kHelp = R"(usage: cuda_kernels_test [--list] [--exact-memory] [GoogleTest's flags]

Runs our kernels on CUDA device 0, one by one, and compares what they leave with fp64 on the host.
Guard bytes lie around all that they read or write. Failures name kernel, shape, type and element.

  --list          print each case
  --exact-memory  no guard bytes, so that memcheck sees what reads behind the end

The last line is JSON: cases, launches, failed cases, and "compared". It is false only on the dry GPU, where
kernels are written down and do not run; only there nothing is compared. Without a device: status 77.

  compute-sanitizer --tool memcheck --error-exitcode 1 --kernel-name kns=axonn \
    cuda_kernels_test --exact-memory
  compute-sanitizer --tool racecheck --error-exitcode 1 --kernel-name kns=axonn \
    cuda_kernels_test --gtest_filter=-*Large*

)";

// A lost device would fail all later tests, and hide which kernel it was. (A flag that a test sets
// is reset when it ends.)
class EndsWithTheDevice : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo&) override {
    if (kernel_test::device_is_lost()) GTEST_FLAG_SET(fail_fast, true);
  }
};

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help") std::printf("%s", kHelp);
    if (argument == "--list") kernel_test::list_cases();
    if (argument == "--exact-memory") kernel_test::use_no_guard_bytes();
  }
  testing::InitGoogleTest(&argc, argv);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help") return 0;
    if (argument == "--list" || argument == "--exact-memory") continue;
    std::fprintf(stderr, "unknown argument %s; --help lists them\n", argv[i]);
    return 2;
  }
  if (const std::string reason = kernel_test::take_device(); !reason.empty()) {
    std::printf("skipped: no CUDA device: %s\n", reason.c_str());
    return 77;
  }
  testing::UnitTest::GetInstance()->listeners().Append(new EndsWithTheDevice);
  int status = RUN_ALL_TESTS();
  const auto [cases, failed] = kernel_test::case_counts();
  if (cases == 0) status = 1;
  std::printf(R"({"test":"cuda_kernels_test","state":"%s","compared":%s,"cases":%d,"launches":%lld,"failed":%d})"
              "\n",
              status == 0 ? "right" : "wrong", kernel_test::kernels_run() ? "true" : "false", cases,
              static_cast<long long>(kernel_test::launches()), failed);
  return status;
}
