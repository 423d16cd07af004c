#include <cstdio>
#include <cstdlib>
#include <optional>

#include <gtest/gtest.h>

#include "axonn/core/process_end.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

Environment* environment = nullptr;

// If one rank left a test early, the others would wait for ever. So the first failed assertion ends
// the job.
class AbortOnFailure final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const char* file = result.file_name() != nullptr ? result.file_name() : "unknown file";
    std::fprintf(stderr, "[rank %d] %s:%d %s\n", environment->rank(), file, result.line_number(), result.message());
    std::fflush(stderr);
    environment->abort(1);
  }
};

}  // namespace

Environment& test_environment() { return *environment; }

bool tests_everything() { return std::getenv("AXONN_TEST_NIGHTLY") != nullptr; }

}  // namespace axonn

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (testing::UnitTest::GetInstance()->total_test_count() == 0) {
    std::fprintf(stderr, "no test in this program\n");
    return 1;
  }
  std::optional<axonn::Environment> environment(std::in_place);
  axonn::environment = &*environment;
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (environment->rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new axonn::AbortOnFailure);
  const int status = RUN_ALL_TESTS();
  environment.reset();
  axonn::end_process(status);
}
