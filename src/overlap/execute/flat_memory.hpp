#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/coconet/plan/schedule_plan.hpp"
#include "axonn/comm/communicator.hpp"
#include "axonn/grid/block_owners.hpp"
#include "axonn/overlap/execute/plan_executor.hpp"
#include "overlap/execute/plan_memory.hpp"

namespace axonn {

at::ScalarType dtype_of(coconet::ElementType type);
// The floating-point number at an address.
double number_at(const std::byte* address, at::ScalarType dtype);

// Flat tensors of any shape, whole ones or a rank's part: the memory of a program by itself.
class FlatMemory final : public PlanMemory {
 public:
  // Buffers of the rank's group `group`, and those that it fills to send them.
  FlatMemory(const coconet::SchedulePlan& plan, const Communicator& ranks, int group, const ExecutorOptions& options);

  struct Buffer {
    at::Tensor data;           // flat
    bool own = false;          // only this rank's elements, one after the other
    bool by_dim = false;       // only this rank's indices of the dim that is cut, contiguous ones
    int64_t count = 0;         // elements of the whole tensor
    coconet::Extents extents;  // the whole tensor's
    int dim = 0;               // the one that is cut, if by_dim
    at::ScalarType dtype = at::kFloat;
  };
  std::unique_ptr<LoopMemory> loop(const coconet::StepKernel& kernel) override;
  const Buffer& buffer(coconet::BufferId id) const;
  const Buffer* find(coconet::BufferId id) const;  // null: it is not on this rank
  void bind(coconet::BufferId id, at::Tensor data);
  bool has(coconet::BufferId id) const { return find(id) != nullptr; }

  // Address of an element of the whole tensor, which this rank holds.
  std::byte* address(const Buffer& buffer, int64_t element) const;
  // This rank's elements of any buffer, one after the other: the buffer's memory or a copy.
  at::Tensor own_elements(const Buffer& buffer) const;
  // Copies this rank's elements between a buffer of all elements and any buffer of the same tensor.
  void copy_own(const Buffer& from, const Buffer& to) const;
  // The elements that this rank owns, as ranges of the whole tensor.
  std::vector<Range> own_ranges(int64_t count) const;
  // The elements that a buffer holds, in its order.
  std::vector<Range> held(const Buffer& buffer) const;
  // This rank's indices of a dim that is cut.
  Range own_indices(int64_t extent) const { return even_part(extent, ranks_, rank_); }

  const coconet::SizeValues& sizes() const { return options_.sizes; }
  int rank() const { return rank_; }

 private:
  int64_t own_number(int64_t element) const;

  const ExecutorOptions& options_;
  int rank_, ranks_;
  BlockOwners owners_;
  std::vector<std::optional<Buffer>> buffers_;  // as the plan's
};

}  // namespace axonn
