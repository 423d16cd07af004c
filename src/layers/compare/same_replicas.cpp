#include "axonn/layers/compare/same_replicas.hpp"

#include <map>

#include <ATen/ops/empty.h>
#define XXH_INLINE_ALL  // all of it is in its header
#include <xxhash.h>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"

namespace axonn {
namespace {

struct Hashed {
  AxisSet axes;
  std::vector<const Replica*> replicas;
  std::vector<uint64_t> hashes;

  uint64_t together() const { return XXH3_64bits(hashes.data(), hashes.size() * sizeof(uint64_t)); }
};

// Of each hash, whether a rank has another one. The minimum of ~h is ~ the maximum of h.
std::vector<bool> differ(Communicator& ranks, const std::vector<uint64_t>& hashes) {
  const auto count = static_cast<int64_t>(hashes.size());
  const at::Tensor least = at::empty({2, count}, at::kLong);
  auto* const values = least.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<int64_t>(hashes[static_cast<size_t>(i)]);
    values[count + i] = ~values[i];
  }
  ranks.all_reduce(least, ReduceOp::min, {.tag = "replicas"}).wait();
  std::vector<bool> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(values[i] != ~values[count + i]);
  return result;
}

}  // namespace

uint64_t fingerprint(const at::Tensor& tensor) {
  const at::Tensor bytes = tensor.detach().to(at::kCPU).contiguous();
  return XXH3_64bits(bytes.const_data_ptr(), bytes.nbytes());
}

uint64_t check_same_replicas(Context& context, const std::vector<Replica>& replicas, const char* where,
                             const std::string& when, const std::string& cure) {
  std::map<uint8_t, Hashed> by_axes;  // same keys, in the same order, on every rank
  for (const Replica& each : replicas) {
    AxisSet axes = each.axes;
    for (const Axis axis : kAxes)
      if (context.shape()[axis] == 1) axes = axes.without(axis);
    Hashed& hashed = by_axes[axes.bits()];
    hashed.axes = axes;
    hashed.replicas.push_back(&each);
    hashed.hashes.push_back(fingerprint(each.held));
  }
  std::vector<uint64_t> all;
  std::string differs;
  for (const auto& [bits, hashed] : by_axes) {
    all.push_back(hashed.together());
    if (hashed.axes.empty()) continue;
    Communicator& ranks = context.communicators().on_cpu(hashed.axes);
    if (!differ(ranks, {all.back()}).front()) continue;
    const std::vector<bool> which = differ(ranks, hashed.hashes);
    for (size_t i = 0; i < which.size() && differs.empty(); ++i)
      if (which[i]) differs = "'" + hashed.replicas[i]->name + "' over " + hashed.axes.to_string();
  }
  if (context.shape().ranks() > 1)
    all_ranks_or_none(context.communicators().on_cpu(AxisSet::all()), [&] {
      AXONN_CHECK(differs.empty(), where, when, " ranks that must hold the same bits differ: ", differs,
                  cure.empty() ? "" : "; ", cure);
    });
  return XXH3_64bits(all.data(), all.size() * sizeof(uint64_t));
}

}  // namespace axonn
