#include "comm/programs/sliced_checks.hpp"

#include <array>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "axonn/comm/programs/sliced_transfer.hpp"

namespace axonn {
namespace {

constexpr std::array<int64_t, 7> kSizes = {0, 1, 3, 5, 4099, 61'440, 300'001};

// Member i of the first group is rank i, its partner the i-th from the end.
struct Place {
  explicit Place(const Environment& environment)
      : members(environment.ranks() / 2),
        first(environment.rank() < members),
        watches(environment.rank() >= 2 * members),
        member(first ? environment.rank() : 2 * members - 1 - environment.rank()) {}

  std::vector<int> stage(bool of_first) const {
    std::vector<int> ranks;
    for (int i = 0; i < members; ++i) ranks.push_back(of_first ? i : 2 * members - 1 - i);
    return ranks;
  }

  int members;
  bool first, watches;
  int member;
};

SlicedTransfer transfer_of(Environment& environment, const Place& place) {
  const Group inside{.axes = {}, .ranks = place.stage(place.first), .index = place.member};
  const auto partner = static_cast<size_t>(place.member);
  const Group across{
      .axes = {}, .ranks = {place.stage(true)[partner], place.stage(false)[partner]}, .index = place.first ? 0 : 1};
  return {environment.communicator(inside, "stage"), environment.communicator(across, "border")};
}

// Exact in every type.
at::Tensor numbers(int64_t elements, at::ScalarType dtype) { return at::arange(elements, dtype).remainder_(61); }

template <typename Number>
Epilogue plus_place() {
  return [](int64_t place, int64_t count, const void* sum, void* result) {
    for (int64_t i = 0; i < count; ++i)
      static_cast<Number*>(result)[i] = static_cast<const Number*>(sum)[i] + static_cast<Number>((place + i) % 7);
  };
}

// Sums of the first group and C arrive in the second one; there and back, also without C.
template <typename Number>
void sends_there_and_back(Environment& environment, at::ScalarType dtype) {
  const Place place(environment);
  if (place.watches || place.members == 0) return;
  SlicedTransfer transfer = transfer_of(environment, place);
  for (const bool computes : {true, false})
    for (const int64_t elements : kSizes) {
      at::Tensor expected = numbers(elements, dtype) * (place.members * (place.members + 1) / 2);
      if (computes) expected += at::arange(elements, dtype).remainder_(7);
      const at::Tensor data =
          place.first ? numbers(elements, dtype) * (place.member + 1) : at::full({elements}, -1, dtype);
      const Epilogue c = computes ? plus_place<Number>() : Epilogue();
      (place.first ? transfer.reduce_and_send(data, c) : transfer.receive(data)).wait();
      if (!place.first) {
        EXPECT_TRUE(data.equal(expected)) << elements;
      } else {
        data.fill_(-1);
      }
      (place.first ? transfer.receive(data) : transfer.send(data)).wait();
      EXPECT_TRUE(data.equal(expected)) << elements << " back";
    }
}

void sliced_transfers_send_there_and_back(Environment& environment) {
  sends_there_and_back<float>(environment, at::kFloat);
  sends_there_and_back<double>(environment, at::kDouble);
}

// A rank sends its slice to its partner, and the rest of the sums and of the gather inside.
void sliced_transfers_send_a_buffer_once(Environment& environment) {
  const Place place(environment);
  if (place.watches || place.members == 0) return;
  SlicedTransfer transfer = transfer_of(environment, place);
  const int64_t slice = 50'000;
  const at::Tensor data = at::full({slice * place.members}, 1, at::kFloat);
  (place.first ? transfer.reduce_and_send(data, {}) : transfer.receive(data)).wait();
  EXPECT_EQ(transfer.across().counters().bytes_sent, place.first ? slice * 4 : 0);
  EXPECT_EQ(transfer.inside().counters().bytes_sent, slice * 4 * (place.members - 1));
}

// Several in flight, and words between them.
void sliced_transfers_keep_their_order(Environment& environment) {
  const Place place(environment);
  if (place.watches || place.members == 0) return;
  SlicedTransfer transfer = transfer_of(environment, place);
  std::vector<at::Tensor> data;
  std::vector<Request> requests;
  const at::Tensor words = at::full({2}, place.first ? 7 : 0, at::kLong);
  for (const int number : {1, 2, 3}) {
    if (number == 2) requests.push_back(place.first ? transfer.send_whole(words) : transfer.receive_whole(words));
    data.push_back(at::full({100'000}, place.first ? number : 0, at::kFloat));
    requests.push_back(place.first ? transfer.reduce_and_send(data.back(), {}) : transfer.receive(data.back()));
  }
  for (const Request& request : requests) request.wait();
  if (place.first) return;
  EXPECT_TRUE(words.equal(at::full({2}, 7, at::kLong)));
  for (const int number : {1, 2, 3})
    EXPECT_TRUE(data[static_cast<size_t>(number - 1)].equal(at::full({100'000}, number * place.members, at::kFloat)));
}

#define AXONN_CHECK_ENTRY(function) \
  CollectiveCheck { #function, function }

constexpr std::array kChecks = {AXONN_CHECK_ENTRY(sliced_transfers_send_there_and_back),
                                AXONN_CHECK_ENTRY(sliced_transfers_send_a_buffer_once),
                                AXONN_CHECK_ENTRY(sliced_transfers_keep_their_order)};

}  // namespace

std::span<const CollectiveCheck> sliced_checks() { return kChecks; }

}  // namespace axonn
