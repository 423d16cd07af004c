#include "gpu/kernels/kernel_case.hpp"

#include <cstdio>
#include <exception>

#include "gpu/kernels/kernel_memory.hpp"

namespace kernel_test {
namespace {

CaseCounts counts;
bool listed = false;

const testing::TestResult& result() { return *testing::UnitTest::GetInstance()->current_test_info()->result(); }

}  // namespace

Case::Case(const std::string& name)
    : trace_(__FILE__, __LINE__, name),
      results_before_(result().total_part_count()),
      exceptions_before_(std::uncaught_exceptions()) {
  ++counts.cases;
  if (listed) std::printf("case: %s\n", name.c_str());
}

Case::~Case() {
  if (std::uncaught_exceptions() > exceptions_before_) ADD_FAILURE() << "the case ended with an exception";
  bool failed = false;
  for (int i = results_before_; i < result().total_part_count(); ++i)
    failed = failed || result().GetTestPartResult(i).failed();
  counts.failed += failed ? 1 : 0;
}

void compare(const std::function<void()>& checks) {
  if (kernels_run()) checks();
}

CaseCounts case_counts() { return counts; }
void list_cases() { listed = true; }

}  // namespace kernel_test
