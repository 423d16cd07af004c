#include "overlap/execute/plan_steps.hpp"

#include <cstring>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/scalar_tensor.h>

#include "overlap/execute/layer_product.hpp"

namespace axonn {
using namespace coconet;

PlanSteps::PlanSteps(const SchedulePlan& plan, ExecutorRanks& everyone, FlatMemory& memory,
                     const ExecutorOptions& options)
    : plan_(plan), everyone_(everyone), ranks_(everyone.group()), memory_(memory), options_(options) {
  const LoopOptions loop{options.run.threads, options.instruction_set, options.seed};
  // Other groups' too: all ranks refuse alike.
  for (const PlanStep& step : plan.steps())
    loops_.push_back(step.computes() ? std::make_unique<StepLoop>(plan, step, memory, loop) : nullptr);
}

bool PlanSteps::holds(const PlanStep& step) const {
  const TensorType& type = plan_[step.statements.front()].type;
  return !type.distribution.is(coconet::Placement::rooted) || type.distribution.root == memory_.rank();
}

CollectiveOptions PlanSteps::collective_options(const std::string& tag) const {
  return {.priority = Priority::normal,
          .after = {},
          .tag = tag,
          .arena_offset = options_.arena_offset,
          .segment_bytes = options_.run.segment_bytes};
}

void PlanSteps::run() {
  const std::vector<PlanStep>& steps = plan_.steps();
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool produces = i + 1 < steps.size() && steps[i + 1].by_parts;
    if (is_mine(steps[i]) || receiver_of(steps[i]) == everyone_.number()) {
      if (produces)
        run_overlapped(i);
      else
        run_step(i);
    }
    i += produces ? 1 : 0;
  }
}

void PlanSteps::run_step(size_t index) {
  const PlanStep& step = plan_.steps()[index];
  if (step.kind == StepKind::transfer) return run_transfer(step, loops_[index].get());
  if (receiver_of(step) != step.group) {
    if (is_mine(step) && step.kind == StepKind::fused) run_kernel(step, *loops_[index]);
    return run_send(step);
  }
  switch (step.kind) {
    case StepKind::scalars:
      loops_[index]->begin();
      return loops_[index]->run_numbers();
    case StepKind::kernel:
      return run_kernel(step, *loops_[index]);
    case StepKind::layer:
      return run_layer(step);
    case StepKind::collective:
      return run_collective(step.statements[0]);
    default:
      return run_fused(step, *loops_[index]);
  }
}

void PlanSteps::run_kernel(const PlanStep& step, StepLoop& loop) {
  if (!holds(step)) return;
  loop.begin();
  loop.run_all();
  loop.finish();
}

void PlanSteps::run_layer(const PlanStep& step) {
  if (!holds(step)) return;
  home(step.statements[0]).data.copy_(product_of(plan_, step, memory_).all().view(-1));
}

// `loop` is null where nothing is computed on the sums.
FusedCollective PlanSteps::fused_of(const PlanStep& step, StepLoop* loop) {
  FusedCollective collective;
  if (step.reducer) {
    collective.contributions = memory_.buffer(source_of(step.reducer)).data;
    collective.op = root_of(step.reducer).attributes().reduction;
  }
  if (step.mover) collective.results = home(step.mover).data;
  if (loop != nullptr) collective.epilogue = loop->epilogue();
  return collective;
}

void PlanSteps::run_fused(const PlanStep& step, StepLoop& loop) {
  loop.begin();
  ranks_.fused(fused_of(step, &loop), collective_options(step.name)).wait();
  loop.finish();
}

// The collective is launched first. Then its contributions are computed in the order in which it
// reads them. Owners have contiguous shares: nothing of this collective lies in slices.
void PlanSteps::run_overlapped(size_t producer) {
  const PlanStep& step = plan_.steps()[producer + 1];
  StepLoop* const loop = loops_[producer + 1].get();
  FusedCollective collective = fused_of(step, loop);
  const at::Tensor contributions = memory_.buffer(source_of(step.reducer)).data;
  if (loop == nullptr) {  // an all-reduce, which may be into another buffer
    collective.results = home(step.reducer).data;
    const auto bytes = static_cast<size_t>(contributions.element_size());
    collective.epilogue = [bytes](int64_t, int64_t count, const void* sum, void* result) {
      std::memcpy(result, sum, static_cast<size_t>(count) * bytes);
    };
  } else {
    loop->begin();
  }
  Request request;
  produce_parts(producer, contributions, [&](Production& production) {
    request = ranks_.fused(collective,
                           {.priority = Priority::normal, .after = {}, .tag = step.name, .production = &production});
  });
  request.wait();
  if (loop != nullptr) loop->finish();
}

void PlanSteps::produce_parts(size_t producer, const at::Tensor& contributions,
                              const std::function<void(Production&)>& launch) {
  const PlanStep& step = plan_.steps()[producer];
  if (step.kind == StepKind::layer) {
    const RowProduct product = product_of(plan_, step, memory_);
    Production production(written_, parts_of(product, ranks_.group(), options_.run.part_rows));
    launch(production);
    produce(product, contributions.view({product.rows, product.width}), production);
    return;
  }
  StepLoop& loop = *loops_[producer];
  const auto bytes = static_cast<int64_t>(contributions.element_size());
  Production production(written_, {ranks_.group(), contributions.numel(), bytes, kPartBytes / bytes});
  loop.begin();
  launch(production);
  for (int64_t number = 0; number < production.parts().size(); ++number) {
    loop.run(production.parts()[number], nullptr, nullptr);
    production.release();
  }
  loop.finish();
}

void PlanSteps::run_collective(ValueId statement) {
  const Expression& root = root_of(statement);
  if (root.is(Operation::reduce_scatter)) return run_reduce_scatter(statement);
  if (root.is(Operation::all_gather)) return run_all_gather(statement);
  run_in_place(statement);
}

// The result is as large as the operand: the collective runs where it lies.
void PlanSteps::run_in_place(ValueId statement) {
  const Expression& root = root_of(statement);
  const Attributes& attributes = root.attributes();
  const at::Tensor from = memory_.buffer(source_of(statement)).data;
  at::Tensor result = from;
  if (plan_[statement].is_number())
    result = from.clone();
  else if (plan_.home(statement) != source_of(statement))
    result = home(statement).data.copy_(from);
  const CollectiveOptions options = collective_options(plan_.name(statement));
  if (root.is(Operation::all_reduce))
    ranks_.all_reduce(result, attributes.reduction, options).wait();
  else if (root.is(Operation::reduce))
    ranks_.reduce(result, attributes.root, attributes.reduction, options).wait();
  else
    ranks_.broadcast(result, plan_[plan_[statement].operands[0]].type.distribution.root, options).wait();
  if (plan_[statement].is_number()) memory_.set(statement, result.item<double>());
}

void PlanSteps::run_reduce_scatter(ValueId statement) {
  FlatMemory::Buffer sums = memory_.buffer(source_of(statement));
  if (plan_.home(statement) != source_of(statement)) sums.data = sums.data.clone();
  ranks_
      .fused(
          {.contributions = sums.data, .results = {}, .epilogue = {}, .op = root_of(statement).attributes().reduction},
          collective_options(plan_.name(statement)))
      .wait();
  memory_.copy_own(sums, home(statement));
}

void PlanSteps::run_all_gather(ValueId statement) {
  memory_.copy_own(memory_.buffer(source_of(statement)), home(statement));
  ranks_.fused({.contributions = {}, .results = home(statement).data}, collective_options(plan_.name(statement)))
      .wait();
}

// A rank exchanges with the same rank of the other group what it holds.
void PlanSteps::run_send(const PlanStep& step) {
  const ValueId operand = plan_[step.mover].operands[0];
  const TensorType& type = plan_[step.mover].type;
  const bool sends = is_mine(step);
  if (type.distribution.is(coconet::Placement::rooted) && type.distribution.root != memory_.rank()) return;
  SlicedTransfer& border = everyone_.to(sends ? type.group : step.group);
  if (plan_[step.mover].is_number()) {
    const at::Tensor number = at::scalar_tensor(sends ? memory_.number(operand).value() : 0, at::kDouble);
    (sends ? border.send_whole(number) : border.receive_whole(number)).wait();
    if (!sends) memory_.set(step.mover, number.item<double>());
    return;
  }
  const FlatMemory::Buffer& buffer = home(sends && step.kind != StepKind::fused ? operand : step.mover);
  const bool sliced = type.distribution.is(coconet::Placement::sliced);
  if (sends)
    border.send_whole(sliced ? memory_.own_elements(buffer) : buffer.data).wait();
  else
    border.receive_whole(buffer.data).wait();
}

// The slices of its parts are others than those of memory, and nothing of it lies in memory.
void PlanSteps::run_transfer(const PlanStep& step, StepLoop* loop) {
  if (!is_mine(step)) {
    everyone_.to(step.group).receive(home(step.arrival).data, step.name).wait();
    return;
  }
  SlicedTransfer& border = everyone_.to(receiver_of(step));
  const BufferId source = source_of(step.reducer ? step.reducer : step.mover);
  const at::Tensor values = memory_.buffer(source).data;
  if (!step.reducer) {
    border.send(values, step.name).wait();
    return;
  }
  if (loop != nullptr) loop->begin();
  border
      .reduce_and_send(plan_[source].overwritten ? values : values.clone(),
                       loop == nullptr ? Epilogue() : loop->epilogue(), step.name)
      .wait();
}

}  // namespace axonn
