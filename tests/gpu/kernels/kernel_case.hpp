// Cases: a kernel with one shape and one type.
#pragma once

#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace kernel_test {

// While it lives, failures name the case. Values that a kernel works on must end before it.
class Case {
 public:
  explicit Case(const std::string& name);
  ~Case();
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

 private:
  testing::ScopedTrace trace_;
  int results_before_;
  int exceptions_before_;
};

// Calls `checks` if kernels run: only then there are values to compare.
void compare(const std::function<void()>& checks);

struct CaseCounts {
  int cases = 0;
  int failed = 0;
};
CaseCounts case_counts();  // so far
void list_cases();         // on stdout, from now on

}  // namespace kernel_test
