#include "axonn/comm/scattered_tensors.hpp"

#include <utility>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "support/user_error.hpp"

namespace axonn {
namespace {

at::Tensor floats(int64_t elements) { return at::empty({elements}, at::kFloat); }

TEST(ScatteredTensors, TakeTwelveBytesPerBucketAndSixteenWithNumbers) {
  const std::vector<NamedTensor> tensors = {{"a", floats(1)}, {"b", floats(1024)}, {"c", floats(1025)}};
  EXPECT_EQ(ScatteredTensors(tensors).table_bytes(), 12 * (1 + 1 + 2));
  EXPECT_EQ(ScatteredTensors(tensors, /*numbered=*/true).table_bytes(), 16 * (1 + 1 + 2));
}

TEST(ScatteredTensors, FindEveryElementAtItsPlace) {
  const std::vector<int64_t> sizes = {1, 1024, 3000, 0, 2048, 7};
  std::vector<NamedTensor> tensors;
  for (const int64_t size : sizes) tensors.push_back({"t", floats(size)});
  const ScatteredTensors scattered(tensors, /*numbered=*/true);
  EXPECT_EQ(scattered.begins(), (std::vector<int64_t>{0, 1024, 2048, 5 * 1024, 5 * 1024, 7 * 1024}));
  EXPECT_EQ(scattered.size(), 8 * 1024);
  std::vector<Range> expected;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t begin = scattered.begins()[i];
    for (int64_t element = 0; element < sizes[i]; ++element) {
      EXPECT_EQ(scattered.address(begin + element),
                static_cast<std::byte*>(tensors[i].tensor.data_ptr()) + 4 * element);
      EXPECT_EQ(scattered.number(begin + element), static_cast<int>(i));
    }
    if (sizes[i] > 0) expected.push_back({begin, begin + sizes[i]});
  }
  std::vector<Range> runs;
  const auto collect = [&](Range run) { runs.push_back(run); };
  scattered.for_each_run({0, scattered.size()}, collect);
  EXPECT_EQ(runs, expected);
  EXPECT_EQ(scattered.narrowed({2048 + 5, 2048 + 9}).data_ptr(), scattered.address(2048 + 5));
  runs.clear();
  scattered.for_each_run({3, 2 * 1024 + 1025}, collect);  // begins in empty places, ends within a bucket
  EXPECT_EQ(runs, (std::vector<Range>{{1024, 2048}, {2048, 3073}}));
}

TEST(ScatteredTensors, RefuseTensorsByName) {
  const at::Tensor matrix = at::empty({4, 6}, at::kFloat), flat = floats(100);
  const auto expect = [](std::vector<NamedTensor> tensors, const std::string& part, const std::string& cure) {
    EXPECT_USER_ERROR(ScatteredTensors(std::move(tensors)), part, cure);
  };
  expect({}, "there are no tensors", "give at least one");
  expect({{"a", matrix}, {"b", {}}}, "'b' is an undefined tensor", "give it memory");
  expect({{"a", flat}, {"b", matrix.t()}}, "'b' is not contiguous: sizes [6, 4] with strides [1, 6]", ".contiguous()");
  expect({{"a", flat}, {"b", at::empty({4}, at::kBFloat16)}}, "'b' is of BFloat16 and 'a' of Float",
         "convert all to one type");
  expect({{"a", at::empty({4}, at::device(at::kMeta))}}, "'a' is on meta", "lie on the CPU");
  expect({{"a", flat.narrow(0, 0, 50)}, {"c", matrix}, {"b", flat.narrow(0, 49, 50)}}, "'a' and 'b' share memory",
         "clone() views");
  expect({{"a", flat}, {"again", flat}}, "share memory", "give each tensor once");
}

}  // namespace
}  // namespace axonn
