#include "axonn/grid/reduction/reduction_semantics.hpp"

#include <algorithm>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr int kMostDevices = 1024;

bool any(const uint64_t* row, int words) {
  return std::any_of(row, row + words, [](uint64_t word) { return word != 0; });
}

bool is_subset(const uint64_t* a, const uint64_t* b, int words) {
  for (int w = 0; w < words; ++w)
    if ((a[w] & ~b[w]) != 0) return false;
  return true;
}

}  // namespace

std::string_view to_string(ReductionFault fault) {
  switch (fault) {
    case ReductionFault::none:
      return "nothing is wrong";
    case ReductionFault::no_data:
      return "its members hold no data";
    case ReductionFault::other_chunks:
      return "its members hold different chunks, need the same";
    case ReductionFault::counted_twice:
      return "a contribution would be counted twice";
    case ReductionFault::not_divisible:
      return "the chunks do not divide evenly over its members";
    case ReductionFault::uneven:
      return "its members hold different numbers of chunks, need as many";
    case ReductionFault::held_twice:
      return "two of its members hold the same chunk, need different ones";
    case ReductionFault::root_knows_less:
      return "a member holds what its root does not";
    case ReductionFault::nothing_new:
      return "its members already hold what its root does";
  }
  throw InternalError("grid.reduction_semantics", detail::concatenate("no fault ", static_cast<int>(fault)));
}

ReductionState::ReductionState(int devices) : devices_(devices), words_((devices + 63) / 64) {
  AXONN_CHECK(devices >= 1 && devices <= kMostDevices, "grid.reduction_semantics", "a reduction is followed for 1 to ",
              kMostDevices, " devices, got ", devices);
  bits_.assign(static_cast<size_t>(devices) * devices * words_, 0);
  for (int device = 0; device < devices; ++device)
    for (int chunk = 0; chunk < devices; ++chunk) row(device, chunk)[device / 64] = uint64_t{1} << (device % 64);
}

bool ReductionState::holds(int device, int chunk) const { return any(row(device, chunk), words_); }

bool ReductionState::contributed(int device, int chunk, int source) const {
  return (row(device, chunk)[source / 64] >> (source % 64) & 1) != 0;
}

std::span<const uint64_t> ReductionState::contributions(int device, int chunk) const {
  return {row(device, chunk), static_cast<size_t>(words_)};
}

void ReductionState::clear(int device) { std::fill_n(row(device, 0), static_cast<size_t>(devices_) * words_, 0); }

// The root gets the sum; the others keep what they have.
ReductionFault ReductionState::sum_into_root(std::span<const int> group) {
  bool data = false;
  for (int chunk = 0; chunk < devices_; ++chunk) {
    const bool held = holds(group[0], chunk);
    data = data || held;
    for (const int device : group)
      if (holds(device, chunk) != held) return ReductionFault::other_chunks;
  }
  if (!data) return ReductionFault::no_data;
  for (size_t position = 0; position < static_cast<size_t>(devices_) * words_; ++position) {
    uint64_t sum = 0;
    for (const int device : group) {
      const uint64_t word = row(device, 0)[position];
      if ((sum & word) != 0) return ReductionFault::counted_twice;
      sum |= word;
    }
  }
  for (size_t position = 0; position < static_cast<size_t>(devices_) * words_; ++position)
    for (const int device : group.subspan(1)) row(group[0], 0)[position] |= row(device, 0)[position];
  return ReductionFault::none;
}

ReductionFault ReductionState::reduce_scatter(std::span<const int> group) {
  int held = 0;
  for (int chunk = 0; chunk < devices_; ++chunk) held += holds(group[0], chunk) ? 1 : 0;
  const int members = static_cast<int>(group.size());
  const bool divisible = held % members == 0;
  if (!divisible) {
    ReductionState copy = *this;  // the other rules come first
    const auto fault = copy.sum_into_root(group);
    return fault == ReductionFault::none ? ReductionFault::not_divisible : fault;
  }
  if (const auto fault = sum_into_root(group); fault != ReductionFault::none) return fault;
  for (const int device : group.subspan(1)) clear(device);
  int index = 0;
  for (int chunk = 0; chunk < devices_; ++chunk) {
    if (!holds(group[0], chunk)) continue;
    const int owner = group[static_cast<size_t>(index++ / (held / members))];
    if (owner == group[0]) continue;
    std::copy_n(row(group[0], chunk), words_, row(owner, chunk));
    std::fill_n(row(group[0], chunk), words_, 0);
  }
  return ReductionFault::none;
}

ReductionFault ReductionState::all_gather(std::span<const int> group) {
  int first = 0;
  for (const int device : group) {
    int held = 0;
    for (int chunk = 0; chunk < devices_; ++chunk) held += holds(device, chunk) ? 1 : 0;
    if (device == group[0]) first = held;
    if (held != first) return ReductionFault::uneven;
  }
  if (first == 0) return ReductionFault::no_data;
  for (int chunk = 0; chunk < devices_; ++chunk)
    if (std::ranges::count_if(group, [&](int device) { return holds(device, chunk); }) > 1)
      return ReductionFault::held_twice;
  for (int chunk = 0; chunk < devices_; ++chunk) {
    const auto holder = std::ranges::find_if(group, [&](int device) { return holds(device, chunk); });
    if (holder == group.end()) continue;
    for (const int device : group)
      if (device != *holder) std::copy_n(row(*holder, chunk), words_, row(device, chunk));
  }
  return ReductionFault::none;
}

ReductionFault ReductionState::broadcast(std::span<const int> group) {
  const int all = devices_ * words_;
  if (!any(row(group[0], 0), all)) {
    const bool nobody = std::ranges::none_of(group, [&](int device) { return any(row(device, 0), all); });
    return nobody ? ReductionFault::no_data : ReductionFault::root_knows_less;
  }
  bool news = false;
  for (const int device : group.subspan(1)) {
    if (!is_subset(row(device, 0), row(group[0], 0), all)) return ReductionFault::root_knows_less;
    news = news || !is_subset(row(group[0], 0), row(device, 0), all);
  }
  if (!news) return ReductionFault::nothing_new;
  for (const int device : group.subspan(1)) std::copy_n(row(group[0], 0), all, row(device, 0));
  return ReductionFault::none;
}

ReductionFault ReductionState::apply(Collective collective, std::span<const int> group) {
  switch (collective) {
    case Collective::all_reduce: {
      const auto fault = sum_into_root(group);
      if (fault == ReductionFault::none)
        for (const int device : group.subspan(1))
          std::copy_n(row(group[0], 0), static_cast<size_t>(devices_) * words_, row(device, 0));
      return fault;
    }
    case Collective::reduce_scatter:
      return reduce_scatter(group);
    case Collective::all_gather:
      return all_gather(group);
    case Collective::reduce: {
      const auto fault = sum_into_root(group);
      if (fault == ReductionFault::none)
        for (const int device : group.subspan(1)) clear(device);
      return fault;
    }
    case Collective::broadcast:
      return broadcast(group);
  }
  throw InternalError("grid.reduction_semantics", detail::concatenate("no collective ", static_cast<int>(collective)));
}

ReductionFault ReductionState::apply(const ReductionStep& step) {
  for (const auto& group : step.groups)
    if (const auto fault = apply(step.collective, group); fault != ReductionFault::none) return fault;
  return ReductionFault::none;
}

size_t ReductionState::hash() const {
  uint64_t mixed = 0x9e3779b97f4a7c15;
  for (const uint64_t word : bits_) {
    mixed = (mixed ^ word) * 0xff51afd7ed558ccd;
    mixed ^= mixed >> 32;
  }
  return mixed;
}

}  // namespace axonn
