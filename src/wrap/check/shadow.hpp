#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/layers/context.hpp"

namespace axonn {

// A typed member's output that stays split over an axis: of each of its equal parts, this rank has
// the features `mine`.
struct SplitOutput {
  SplitOutput(Context& on, std::string of, Axis over, int64_t features_of_a_part, int64_t heads_of_a_part);

  std::string member;
  ContextHandle context;
  Axis axis;
  int64_t features;  // in one part, on all ranks
  int64_t heads;     // in these; 0: none
  Range mine;

  // Whether they are all features, each of several times, or the heads.
  bool counts_all(int64_t indices) const { return indices % features == 0 || indices == heads; }
  // The number on all ranks of so many indices here; nothing if they are no part of this split.
  std::optional<int64_t> on_all_ranks(int64_t indices) const;
  // The least of each value over the ranks of the axis, which all call it with as many.
  std::vector<int64_t> least(const std::vector<int64_t>& values) const;
};

// The whole tensor of which another one is this rank's part. It is kept with that one: detached
// copies have it too.
struct Shadow final : c10::BackendMeta {
  Shadow(at::Tensor of_all, int64_t equal_parts, std::shared_ptr<const SplitOutput> output)
      : whole(std::move(of_all)), parts(equal_parts), split(std::move(output)) {}
  at::Tensor whole;
  int64_t parts;  // the other tensor holds a piece of each
  std::shared_ptr<const SplitOutput> split;
};

const Shadow* shadow_of(const at::Tensor& x);  // null if it has none
void give_shadow(const at::Tensor& x, const at::Tensor& whole, int64_t parts, std::shared_ptr<const SplitOutput> split);
void take_shadow(const at::Tensor& x);

// Equal but for rounding.
bool same_values(const at::Tensor& first, const at::Tensor& second);
// Whether `local` holds what this rank has of `whole` in this dim, which has so many equal parts.
bool is_piece(const at::Tensor& local, const at::Tensor& whole, int64_t dim, int64_t parts, const SplitOutput& split);
// The dim in which their sizes differ; nothing unless it is one.
std::optional<int64_t> differing_dim(const at::Tensor& local, const at::Tensor& whole);
// The least number of parts with which it does, in any dim; 0 if it does not.
int64_t parts_of_piece(const at::Tensor& local, const at::Tensor& whole, const SplitOutput& split);

// "the split output of 'up' (sizes [8, 32] on this rank of 2 along y, [8, 64] whole)", for errors.
std::string describe(const at::Tensor& local, const Shadow& shadow);

}  // namespace axonn
