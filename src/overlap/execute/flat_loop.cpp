#include <algorithm>
#include <cmath>

#include <ATen/ops/from_blob.h>

#include "axonn/core/error.hpp"
#include "overlap/execute/flat_memory.hpp"

namespace axonn {
using namespace coconet;
namespace {

constexpr int64_t kTask = int64_t{1} << 15;  // elements at least per task of a thread

// A loop over a shape. Values that are not as large as it are read row by row.
class FlatLoop final : public LoopMemory {
 public:
  FlatLoop(FlatMemory& memory, const StepKernel& kernel)
      : plan_(memory.plan()),
        memory_(memory),
        extents_(extents_of(kernel.loop, memory.sizes())),
        count_(count_of(extents_)) {
    for (const StepKernel::Operand& stream : kernel.streams)
      streams_.push_back(operand(stream, stream.type.shape != kernel.loop));
    for (const StepKernel::Operand& value : kernel.range_values) values_.push_back(operand(value, true));
    for (const StepKernel::Sum& sum : kernel.sums) check(sum);
    const bool by_rows = std::ranges::count(streams_, true, &Operand::broadcast) > 0 || !values_.empty() ||
                         std::ranges::any_of(kernel.sums, [](const auto& sum) { return !sum.dims.empty(); });
    if (by_rows && !extents_.empty()) row_ = extents_.back();
    add_tasks(kernel.distribution.is(coconet::Placement::sliced));
  }

  std::span<const Range> tasks() const override { return tasks_; }

  void for_each_piece(Range elements, c10::function_ref<void(const LoopPiece&)> visit) const override {
    for (int64_t begin = elements.begin; begin < elements.end;) {
      const int64_t end = row_ == 0 ? elements.end : std::min(elements.end, (begin / row_ + 1) * row_);
      visit({.elements = {begin, end}});
      begin = end;
    }
  }

  void find(const LoopPiece& piece, std::span<void*> streams, std::span<double> values) const override {
    for (size_t i = 0; i < streams.size(); ++i) streams[i] = address(streams_[i], piece.elements.begin);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = number_at(address(values_[i], piece.elements.begin), values_[i].buffer->dtype);
  }

  void store(const StepKernel::Sum& sum, std::vector<LoopPartial>& partials) override {
    int64_t inner = count_;
    if (!sum.dims.empty()) {
      inner = 1;
      for (size_t i = extents_.size() - sum.dims.size(); i < extents_.size(); ++i) inner *= extents_[i];
    }
    for (LoopPartial& partial : partials) partial.row = partial.begin / inner;
    std::vector<double> totals = combined(sum.reduction, partials, inner == 0 ? 0 : count_ / inner);
    if (sum.is_norm)
      for (double& total : totals) total = std::sqrt(total);
    if (plan_[sum.statement].is_number()) return memory_.set(sum.statement, totals.at(0));
    const auto& buffer = memory_.buffer(plan_.home(sum.statement));
    buffer.data.copy_(at::from_blob(totals.data(), {static_cast<int64_t>(totals.size())}, at::kDouble));
  }

 private:
  struct Operand {
    const FlatMemory::Buffer* buffer = nullptr;  // null: it is not in this rank's memory
    bool broadcast = false;                      // it is not as large as the loop
    std::vector<int64_t> strides;                // per dim of the loop; 0 where its size is 1
  };

  Operand operand(const StepKernel::Operand& value, bool broadcast) const {
    Operand made{memory_.find(value.buffer), broadcast, std::vector<int64_t>(extents_.size(), 0)};
    const Shape& shape = value.type.shape;
    const Extents own = extents_of(shape, memory_.sizes());
    int64_t stride = 1;
    for (size_t i = 0; i < own.size() && i < extents_.size(); ++i) {
      const size_t dim = own.size() - 1 - i;
      made.strides[extents_.size() - 1 - i] = shape[dim].is_one() ? 0 : stride;
      stride *= own[dim];
    }
    return made;
  }

  std::byte* address(const Operand& operand, int64_t element) const {
    if (operand.buffer == nullptr) return nullptr;
    if (!operand.broadcast) return memory_.address(*operand.buffer, element);
    int64_t place = 0;
    for (size_t i = extents_.size(); i-- > 0;) {
      place += element % extents_[i] * operand.strides[i];
      element /= extents_[i];
    }
    return memory_.address(*operand.buffer, place);
  }

  // Cut where blocks of reductions end, or rows: so the bits do not depend on the tasks.
  void add_tasks(bool own_only) {
    const std::vector<Range> ranges = own_only ? memory_.own_ranges(count_) : std::vector<Range>{{0, count_}};
    const int64_t unit = row_ == 0 ? StageChain::kReductionBlock : row_;
    const int64_t task = (kTask + unit - 1) / unit * unit;
    for (const Range& range : ranges)
      for (int64_t begin = range.begin; begin < range.end;) {
        const int64_t cut = row_ == 0 ? begin + task : (begin / task + 1) * task;
        tasks_.push_back({begin, std::min(range.end, cut)});
        begin = tasks_.back().end;
      }
  }

  // A sum over some dims is one number per element of the others: those must come first.
  void check(const StepKernel::Sum& sum) const {
    std::vector<int> dims = sum.dims;
    std::ranges::sort(dims);
    for (size_t i = 0; i < dims.size(); ++i)
      AXONN_CHECK(dims[dims.size() - 1 - i] == static_cast<int>(extents_.size() - 1 - i), "overlap.executor",
                  plan_.name(sum.statement), ": sums must be over the last dims, got ",
                  plan_.program().written(plan_[sum.statement].expression));
  }

  const SchedulePlan& plan_;
  FlatMemory& memory_;
  Extents extents_;
  int64_t count_;
  int64_t row_ = 0;  // pieces do not cross multiples of it; 0: no limit
  std::vector<Range> tasks_;
  std::vector<Operand> streams_, values_;
};

}  // namespace

std::unique_ptr<LoopMemory> FlatMemory::loop(const StepKernel& kernel) {
  return std::make_unique<FlatLoop>(*this, kernel);
}

}  // namespace axonn
