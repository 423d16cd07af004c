#include "axonn/overlap/execute/plan_executor.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

#include "axonn/coconet/language/program_work.hpp"
#include "axonn/comm/production.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/process_memory.hpp"
#include "axonn/core/text.hpp"
#include "overlap/execute/executor_memory.hpp"
#include "overlap/execute/executor_ranks.hpp"
#include "overlap/execute/layer_product.hpp"
#include "overlap/execute/step_loop.hpp"

namespace axonn {
using namespace coconet;
namespace {

constexpr const char* kWhere = "overlap.executor";
constexpr double kMostOperations = 1e15;
constexpr int64_t kPartBytes = 480 << 10;  // elements of a computed part: 8 messages

}  // namespace

struct PlanExecutor::Impl {
  // `place`: a Communicator or an Environment.
  template <typename Place>
  Impl(SchedulePlan made, Place& place, ExecutorOptions chosen)
      : plan(std::move(made)),
        everyone(program(), place),
        ranks(everyone.group()),
        options(checked(std::move(chosen), place)),
        memory(plan, ranks, everyone.number(), options) {
    check();
    for (const Declaration& declaration : plan.program().declarations())
      if (declaration.value) memory.numbers[declaration.name] = *declaration.value;
    for (const PlanStep& step : plan.steps()) {
      // Other groups' too: all ranks refuse alike.
      loops.push_back(step.computes() ? std::make_unique<StepLoop>(plan, step, memory) : nullptr);
    }
  }

  ExecutorOptions checked(ExecutorOptions chosen, const Environment& environment) const {
    check_size(plan, chosen.sizes, ranks.size(), environment.local_ranks());
    return chosen;
  }
  ExecutorOptions checked(ExecutorOptions chosen, const Communicator&) const {
    check_size(plan, chosen.sizes, ranks.size(), 1);
    return chosen;
  }

  const Program& program() const { return plan.program(); }
  const Expression& root_of(const std::string& statement) const { return program().statement(statement).expression; }
  bool is_mine(const PlanStep& step) const {
    return step.group == everyone.number() || step.group == TensorType::kEveryGroup;
  }
  // The group that a step sends to; its own one if it sends nothing.
  int receiver_of(const PlanStep& step) const {
    return step.mover.empty() ? step.group : program().type(step.mover).group;
  }
  bool is_number(const std::string& value) const {
    const TensorType& type = program().type(value);
    return type.is_scalar() && type.distribution.is(coconet::Placement::replicated);
  }

  // Whether a sliced value has blocks of the flat tensor, and not a part of one dim, or of a whole
  // that products read in place.
  bool lies_in_blocks(const std::string& value) const {
    const auto home = std::ranges::find(plan.buffers(), plan.home(value), &PlanBuffer::name);
    if (home == plan.buffers().end()) return true;
    const Statement* const statement = program().find_statement(value);
    const bool is_view = statement != nullptr && home->name != value && statement->expression.is(Operation::slice);
    return !home->by_dim && (!is_view || home->type.distribution.is(coconet::Placement::sliced));
  }
  void check() const;
  void check_step(const PlanStep& step) const;
  void check_rooted(const std::string& value) const;

  void run_scalars(const PlanStep& step, StepLoop& loop);
  void run_fused(const PlanStep& step, StepLoop& loop);
  void run_collective(const std::string& statement);
  void run_all_reduce(const std::string& statement);
  void run_reduce_scatter(const std::string& statement);
  void run_all_gather(const std::string& statement);
  void run_rooted(const std::string& statement);
  void run_step(size_t index);
  void run_kernel(const PlanStep& step, StepLoop& loop);
  void run_send(const PlanStep& step);
  void run_transfer(const PlanStep& step, StepLoop* loop);
  void run_layer(const PlanStep& step);
  void run_overlapped(size_t producer);
  void produce_parts(size_t producer, const at::Tensor& contributions, const std::function<void(Production&)>& launch);
  static Epilogue epilogue_of(StepLoop& loop);
  FusedCollective fused_of(const PlanStep& step, StepLoop* loop);

  CollectiveOptions collective_options(const std::string& name) const {
    return {.priority = Priority::normal,
            .after = {},
            .tag = name,
            .arena_offset = options.arena_offset,
            .segment_bytes = options.run.segment_bytes};
  }
  // Whether this rank has a value that lies on one rank only.
  bool holds(const PlanStep& step) const {
    const TensorType& type = program().type(step.statements.front());
    return !type.distribution.is(coconet::Placement::rooted) || type.distribution.root == memory.rank();
  }

  SchedulePlan plan;
  ExecutorRanks everyone;
  Communicator& ranks;  // this rank's group
  ExecutorOptions options;
  ExecutorMemory memory;
  std::vector<std::unique_ptr<StepLoop>> loops;  // per step; null: it computes nothing
  const std::shared_ptr<ProducerCounter> written = std::make_shared<ProducerCounter>();
};

void PlanExecutor::Impl::check() const {
  std::optional<Shape> sliced;
  const auto check_slices = [&](const std::string& value) {
    const TensorType& type = program().type(value);
    if (type.distribution.is(coconet::Placement::rooted)) check_rooted(value);
    if (!type.distribution.is(coconet::Placement::sliced) || !lies_in_blocks(value)) return;
    AXONN_CHECK(!sliced || *sliced == type.shape, kWhere, value, ": all sliced tensors need one shape, got ",
                to_string(type.shape), " beside ", to_string(*sliced));
    sliced = type.shape;
  };
  for (const Declaration& declaration : program().declarations()) check_slices(declaration.name);
  for (const Statement& statement : program().statements()) {
    check_slices(statement.name);
    // A slice in the text of a reduction has no name, and other blocks than the result has.
    const TensorType& type = program().type(statement.name);
    if (!statement.expression.is(OperationKind::reduction) || !type.distribution.is(coconet::Placement::sliced))
      continue;
    const Shape reduced = program().type(statement.expression.operands()[0]).shape;
    AXONN_CHECK(reduced == type.shape, kWhere, program().written(statement.name),
                ": all sliced tensors need one shape, got ", to_string(reduced), " beside ", to_string(type.shape));
  }
  for (const PlanStep& step : plan.steps()) check_step(step);
}

void PlanExecutor::Impl::check_rooted(const std::string& value) const {
  const int root = program().type(value).distribution.root;
  AXONN_CHECK(root < ranks.size(), kWhere, value, ": its root must be one of ", ranks.size(), " ranks, got ", root);
}

void PlanExecutor::Impl::check_step(const PlanStep& step) const {
  if (step.kind == StepKind::layer) {
    const Expression& root = root_of(step.statements[0]);
    bool runs = root.is(Operation::matmul) && !program().type(root).distribution.is(coconet::Placement::sliced);
    for (const Expression& operand : root.operands())
      runs = runs &&
             (!program().type(operand).distribution.is(coconet::Placement::sliced) || !lies_in_blocks(operand.name()));
    AXONN_CHECK(runs, kWhere, step.name,
                ": needs a matmul of whole operands, or of tensors and slices of tensors that ",
                "are cut along the dim that it sums, got ", program().written(root));
  }
  if (step.kind != StepKind::fused) return;
  for (const std::string& name : {step.reducer, step.mover}) {
    if (name.empty()) continue;
    const Expression& root = root_of(name);
    AXONN_CHECK(!root.is(Operation::send) || !is_number(name), kWhere, "fuse ", step.name, ": ", name,
                " is a number; leave its send out of the section");
  }
}

void PlanExecutor::Impl::run_scalars(const PlanStep& step, StepLoop& loop) {
  // Its streams are the results, one number each.
  std::vector<double> results(loop.kernel().streams.size());
  loop.begin();
  loop.run_numbers(results);
  for (size_t i = 0; i < results.size(); ++i) memory.numbers[loop.kernel().streams[i].value] = results[i];
  AXONN_ASSERT(results.size() == step.statements.size(), "'", step.name, "'");
}

Epilogue PlanExecutor::Impl::epilogue_of(StepLoop& loop) {
  return [&loop](int64_t place, int64_t count, const void* sum, void* result) { loop.run(place, count, sum, result); };
}

// `loop` is null where nothing is computed on the sums.
FusedCollective PlanExecutor::Impl::fused_of(const PlanStep& step, StepLoop* loop) {
  FusedCollective collective;
  if (!step.reducer.empty()) {
    const Expression& root = root_of(step.reducer);
    collective.contributions = memory.buffer(plan.home(root.operands()[0].name())).data;
    collective.op = root.attributes().reduction;
  }
  if (!step.mover.empty()) collective.results = memory.buffer(plan.home(step.mover)).data;
  if (loop != nullptr) collective.epilogue = epilogue_of(*loop);
  return collective;
}

void PlanExecutor::Impl::run_fused(const PlanStep& step, StepLoop& loop) {
  loop.begin();
  ranks.fused(fused_of(step, &loop), collective_options(step.name)).wait();
  loop.finish();
}

// The collective is launched first. Then its contributions are computed in the order in which it
// reads them. Owners have contiguous shares: nothing of this collective lies in slices.
void PlanExecutor::Impl::run_overlapped(size_t producer) {
  const PlanStep& step = plan.steps()[producer + 1];
  StepLoop* const loop = loops[producer + 1].get();
  FusedCollective collective = fused_of(step, loop);
  const at::Tensor contributions = memory.buffer(plan.home(root_of(step.reducer).operands()[0].name())).data;
  if (loop == nullptr) {  // an all-reduce, which may be into another buffer
    collective.results = memory.buffer(plan.home(step.reducer)).data;
    const auto bytes = static_cast<size_t>(contributions.element_size());
    collective.epilogue = [bytes](int64_t, int64_t count, const void* sum, void* result) {
      std::memcpy(result, sum, static_cast<size_t>(count) * bytes);
    };
  } else {
    loop->begin();
  }
  Request request;
  produce_parts(producer, contributions, [&](Production& production) {
    request = ranks.fused(collective,
                          {.priority = Priority::normal, .after = {}, .tag = step.name, .production = &production});
  });
  request.wait();
  if (loop != nullptr) loop->finish();
}

void PlanExecutor::Impl::produce_parts(size_t producer, const at::Tensor& contributions,
                                       const std::function<void(Production&)>& launch) {
  const PlanStep& step = plan.steps()[producer];
  if (step.kind == StepKind::layer) {
    const RowProduct product = product_of(plan, step, memory);
    Production production(written, parts_of(product, ranks.group(), options.run.part_rows));
    launch(production);
    produce(product, contributions.view({product.rows, product.width}), production);
    return;
  }
  StepLoop& loop = *loops[producer];
  const auto bytes = static_cast<int64_t>(contributions.element_size());
  Production production(written, {ranks.group(), contributions.numel(), bytes, kPartBytes / bytes});
  loop.begin();
  launch(production);
  for (int64_t number = 0; number < production.parts().size(); ++number) {
    const Range part = production.parts()[number];
    loop.run(part.begin, part.size(), nullptr, nullptr);
    production.release();
  }
  loop.finish();
}

void PlanExecutor::Impl::run_collective(const std::string& statement) {
  switch (root_of(statement).operation()) {
    case Operation::all_reduce:
      return run_all_reduce(statement);
    case Operation::reduce_scatter:
      return run_reduce_scatter(statement);
    case Operation::all_gather:
      return run_all_gather(statement);
    default:
      return run_rooted(statement);
  }
}

void PlanExecutor::Impl::run_all_reduce(const std::string& statement) {
  const Expression& root = root_of(statement);
  const auto& local = memory.buffer(plan.home(root.operands()[0].name()));
  at::Tensor sum = local.data;
  if (is_number(statement))
    sum = local.data.clone();
  else if (plan.home(statement) != plan.home(root.operands()[0].name()))
    sum = memory.buffer(plan.home(statement)).data.copy_(local.data);
  ranks.all_reduce(sum, root.attributes().reduction, collective_options(statement)).wait();
  if (is_number(statement)) memory.numbers[statement] = sum.item<double>();
}

void PlanExecutor::Impl::run_reduce_scatter(const std::string& statement) {
  const Expression& root = root_of(statement);
  const auto &local = memory.buffer(plan.home(root.operands()[0].name())), &home = memory.buffer(plan.home(statement));
  auto sums = local;
  if (plan.home(statement) != plan.home(root.operands()[0].name())) sums.data = local.data.clone();
  ranks
      .fused({.contributions = sums.data, .results = {}, .epilogue = {}, .op = root.attributes().reduction},
             collective_options(statement))
      .wait();
  memory.copy_own(sums, home);
}

void PlanExecutor::Impl::run_all_gather(const std::string& statement) {
  const auto &part = memory.buffer(plan.home(root_of(statement).operands()[0].name())),
             &whole = memory.buffer(plan.home(statement));
  memory.copy_own(part, whole);
  ranks.fused({.contributions = {}, .results = whole.data}, collective_options(statement)).wait();
}

void PlanExecutor::Impl::run_rooted(const std::string& statement) {
  const Expression& root = root_of(statement);
  const std::string& operand = root.operands()[0].name();
  const auto& from = memory.buffer(plan.home(operand));
  at::Tensor result = from.data;
  if (is_number(statement))
    result = from.data.clone();
  else if (plan.home(operand) != plan.home(statement))
    result = memory.buffer(plan.home(statement)).data.copy_(from.data);
  if (root.is(Operation::reduce))
    ranks.reduce(result, root.attributes().root, root.attributes().reduction, collective_options(statement)).wait();
  else
    ranks.broadcast(result, program().type(operand).distribution.root, collective_options(statement)).wait();
  if (is_number(statement)) memory.numbers[statement] = result.item<double>();
}

// A rank exchanges with the same rank of the other group what it holds.
void PlanExecutor::Impl::run_send(const PlanStep& step) {
  const std::string& operand = root_of(step.mover).operands()[0].name();
  const TensorType& type = program().type(step.mover);
  const bool sends = is_mine(step);
  if (type.distribution.is(coconet::Placement::rooted) && type.distribution.root != memory.rank()) return;
  SlicedTransfer& border = everyone.to(sends ? type.group : step.group);
  if (is_number(step.mover)) {
    const at::Tensor number = at::scalar_tensor(sends ? memory.numbers.at(operand) : 0, at::kDouble);
    (sends ? border.send_whole(number) : border.receive_whole(number)).wait();
    if (!sends) memory.numbers[step.mover] = number.item<double>();
    return;
  }
  const bool computed = step.kind == StepKind::fused;
  const auto& buffer = memory.buffer(plan.home(sends && !computed ? operand : step.mover));
  const bool sliced = type.distribution.is(coconet::Placement::sliced);
  if (sends)
    border.send_whole(sliced ? memory.own_elements(buffer) : buffer.data).wait();
  else
    border.receive_whole(buffer.data).wait();
}

// The slices of its parts are others than those of memory, and nothing of it lies in memory.
void PlanExecutor::Impl::run_transfer(const PlanStep& step, StepLoop* loop) {
  if (!is_mine(step)) {
    everyone.to(step.group).receive(memory.buffer(plan.home(step.arrival)).data, step.name).wait();
    return;
  }
  SlicedTransfer& border = everyone.to(receiver_of(step));
  const std::string& source = root_of(step.reducer.empty() ? step.mover : step.reducer).operands()[0].name();
  const at::Tensor values = memory.buffer(plan.home(source)).data;
  if (step.reducer.empty()) {
    border.send(values, step.name).wait();
    return;
  }
  const auto home = std::ranges::find(plan.buffers(), plan.home(source), &PlanBuffer::name);
  const at::Tensor contributions = home->overwritten ? values : values.clone();
  Epilogue epilogue;
  if (loop != nullptr) {
    loop->begin();
    epilogue = epilogue_of(*loop);
  }
  border.reduce_and_send(contributions, epilogue, step.name).wait();
}

void PlanExecutor::Impl::run_kernel(const PlanStep& step, StepLoop& loop) {
  if (!holds(step)) return;
  loop.begin();
  loop.run_all();
  loop.finish();
}

void PlanExecutor::Impl::run_layer(const PlanStep& step) {
  memory.buffer(plan.home(step.statements[0])).data.copy_(product_of(plan, step, memory).all().view(-1));
}

PlanExecutor::PlanExecutor(SchedulePlan plan, Communicator& ranks, ExecutorOptions options)
    : impl_(std::make_unique<Impl>(std::move(plan), ranks, std::move(options))) {}

PlanExecutor::PlanExecutor(SchedulePlan plan, Environment& environment, ExecutorOptions options)
    : impl_(std::make_unique<Impl>(std::move(plan), environment, std::move(options))) {}

PlanExecutor::~PlanExecutor() = default;

void PlanExecutor::check_size(const SchedulePlan& plan, const SizeValues& sizes, int ranks, int local_ranks) {
  const std::string& name = plan.program().name();
  double bytes = 0;
  for (const PlanBuffer& buffer : plan.buffers()) {
    const auto count = static_cast<double>(count_of(extents_of(buffer.type.shape, sizes)));
    const bool sliced = buffer.type.distribution.is(coconet::Placement::sliced);
    bytes += count * static_cast<double>(bytes_of(buffer.type.element)) / (sliced ? ranks : 1);
  }
  const auto most_bytes = static_cast<double>(free_host_bytes());
  AXONN_CHECK(bytes * local_ranks <= most_bytes, kWhere, name, " needs ", bytes_text(bytes),
              " per rank for its values, ", "on ", local_ranks, " ranks of this host, which has ",
              bytes_text(most_bytes), " free: choose smaller sizes");
  const double operations = work_of(plan.program(), sizes).operations;
  AXONN_CHECK(operations <= kMostOperations, kWhere, name, " needs ", with_unit(operations),
              " operations on single elements in a run, more than ", with_unit(kMostOperations),
              ", which take a day: choose smaller sizes");
}

at::Tensor PlanExecutor::memory(const std::string& value) const {
  (void)impl_->program().type(value);  // its error
  const std::string& home = impl_->plan.home(value);
  AXONN_CHECK(!home.empty(), kWhere, value, " stays in registers or messages, or is a number: use number() for it");
  AXONN_CHECK(impl_->memory.has(home), kWhere, value, " is on group ", impl_->program().type(value).group,
              "; ask its ranks, this one is in group ", impl_->everyone.number());
  return impl_->memory.buffer(home).data;
}

std::vector<Range> PlanExecutor::held(const std::string& value) const {
  (void)memory(value);  // its error
  return impl_->memory.held(impl_->memory.buffer(impl_->plan.home(value)));
}

void PlanExecutor::clear() {
  for (const PlanBuffer& buffer : impl_->plan.buffers())
    if (buffer.declared && impl_->memory.has(buffer.name)) impl_->memory.buffer(buffer.name).data.zero_();
}

void PlanExecutor::bind(const std::string& tensor, at::Tensor memory) {
  AXONN_CHECK(impl_->program().find_declaration(tensor) != nullptr && impl_->memory.has(tensor), kWhere, "'", tensor,
              "' must be a declared tensor of ", impl_->program().name());
  impl_->memory.bind(tensor, std::move(memory));
}

void PlanExecutor::set(const std::string& scalar, double value) {
  const Declaration* declaration = impl_->program().find_declaration(scalar);
  AXONN_CHECK(declaration != nullptr && declaration->type.is_scalar(), kWhere, "'", scalar,
              "' must be a declared scalar of ", impl_->program().name());
  impl_->memory.numbers[scalar] = value;
}

double PlanExecutor::number(const std::string& value) const {
  const auto found = impl_->memory.numbers.find(value);
  AXONN_CHECK(found != impl_->memory.numbers.end(), kWhere, "'", value, "' must be a number that was set or computed");
  return found->second;
}

// What the rank's group runs, and what it receives.
void PlanExecutor::Impl::run_step(size_t index) {
  const PlanStep& step = plan.steps()[index];
  if (step.kind == StepKind::transfer) return run_transfer(step, loops[index].get());
  if (receiver_of(step) != step.group) {
    if (is_mine(step) && step.kind == StepKind::fused) run_kernel(step, *loops[index]);
    return run_send(step);
  }
  switch (step.kind) {
    case StepKind::scalars:
      return run_scalars(step, *loops[index]);
    case StepKind::kernel:
      return run_kernel(step, *loops[index]);
    case StepKind::layer:
      if (holds(step)) run_layer(step);
      return;
    case StepKind::collective:
      return run_collective(step.statements[0]);
    default:
      return run_fused(step, *loops[index]);
  }
}

void PlanExecutor::run() {
  const std::vector<PlanStep>& steps = impl_->plan.steps();
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool produces = i + 1 < steps.size() && !steps[i + 1].producer.empty();
    if (impl_->is_mine(steps[i]) || impl_->receiver_of(steps[i]) == impl_->everyone.number()) {
      if (produces)
        impl_->run_overlapped(i);
      else
        impl_->run_step(i);
    }
    i += produces ? 1 : 0;
  }
}

const SchedulePlan& PlanExecutor::plan() const { return impl_->plan; }

}  // namespace axonn
