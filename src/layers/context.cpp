#include "axonn/layers/context.hpp"

#include <utility>

#include <torch/nn/module.h>

#include "axonn/comm/same_settings.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "axonn/grid/context_ring.hpp"
#include "axonn/kernels/choice/device_choice.hpp"
#include "axonn/layers/sharded_module.hpp"
#include "axonn/overlap/step/gradient_programs.hpp"
#include "comm/context_gone.hpp"

namespace axonn {

struct Context::Impl : std::enable_shared_from_this<Context::Impl> {
  Impl(GridShape shape, ContextOptions given, int grid_rank)
      : options(std::move(given)),
        grid(shape, options.order, options.placement),
        rank(grid_rank),
        at(grid.coordinate(grid_rank)),
        of_handles(std::shared_ptr<Impl>(std::shared_ptr<Impl>(), this)) {}

  // The context has gone; what was made with it has not.
  void close() noexcept {
    gone = true;
    if (scheduler) scheduler->close();
    if (communicators) communicators->close();
    turn.reset();
  }

  ContextOptions options;
  Grid grid;
  int rank;
  Coordinate at;
  std::optional<Samples> samples;
  std::unique_ptr<Communicators> communicators;
  std::unique_ptr<Scheduler> scheduler;
  Environment* environment = nullptr;
  std::shared_ptr<void> turn;  // while a step is under way
  bool gone = false;
  Context of_handles;
};

namespace {

int rank_in_grid(const Environment& environment, const std::vector<int>& job_ranks) {
  if (job_ranks.empty()) return environment.rank();
  for (size_t i = 0; i < job_ranks.size(); ++i)
    if (job_ranks[i] == environment.rank()) return static_cast<int>(i);
  throw UserError("layers.context",
                  detail::concatenate("rank ", environment.rank(), " makes a context whose job_ranks leave it out"));
}

bool narrow(at::ScalarType dtype) { return dtype == at::kBFloat16 || dtype == at::kHalf; }

void check_options(const ContextOptions& options, const GridShape& shape) {
  check_context(shape, options.forward.context);
  AXONN_CHECK(options.forward.split >= 1, "layers.context", "forward.split must be at least 1, got ",
              options.forward.split);
  AXONN_CHECK(options.forward.split == 1 || options.forward.norm_rows != NormRows::on, "layers.context",
              "norm_rows divides all rows of a micro-batch, and forward.split = ", options.forward.split,
              " takes parts of them in turn; choose split = 1, or norm_rows off");
  AXONN_CHECK(!options.forward.needs_cpu() || options.device.is_cpu(), "layers.context", "linear schedule ",
              to_string(options.forward.linear),
              " needs tensors on a CPU: NCCL has no fused collectives; choose mm-ar-c or auto");
  AXONN_CHECK(!options.gpu_kernels.tf32 || (options.device.is_cuda() && options.dtype == at::kFloat), "layers.context",
              "TF32 is for fp32 on a GPU, got ", c10::toString(options.dtype), " on ", options.device.str(),
              "; leave --tf32 out, or choose --dtype fp32 --device cuda");
  AXONN_CHECK(!options.gpu_kernels.deterministic || options.device.is_cuda(), "layers.context",
              "deterministic kernels are chosen on a GPU; on a CPU all are");
  AXONN_CHECK(!options.gpu_kernels.cudnn_benchmark || options.device.is_cuda(), "layers.context",
              "cuDNN measures its kernels on a GPU; leave --cudnn-benchmark out, or choose --device cuda");
  const auto dtype = options.dtype, gradient = options.gradient_dtype.value_or(at::kFloat);
  AXONN_CHECK(dtype == at::kFloat || dtype == at::kDouble || narrow(dtype), "layers.context",
              "dtype must be fp64, fp32, bf16 or fp16, got ", c10::toString(dtype));
  AXONN_CHECK(!options.gradient_dtype || gradient == dtype || (narrow(dtype) && gradient == at::kFloat),
              "layers.context", "gradients of ", c10::toString(dtype), " weights cannot be summed in ",
              c10::toString(gradient));
}

void check_same_on_all_ranks(Environment& environment, const GridShape& shape, const ContextOptions& options,
                             int rank) {
  const Group group{.ranks = options.job_ranks.empty() ? environment.world().group().ranks : options.job_ranks,
                    .index = rank};
  std::string order;
  for (const Axis axis : options.order) order.append(order.empty() ? "" : ",").append(to_string(axis));
  check_same_settings(*environment.communicator(group, "grid"),
                      {{"grid", shape.to_string()},
                       {"axis order", order},
                       {"dtype", c10::toString(options.dtype)},
                       {"attention rows", std::string(to_string(options.forward.attention_rows))},
                       {"attention balance", options.attention_balance.to_string()},
                       {"norm rows", std::string(to_string(options.forward.norm_rows))},
                       {"context", std::to_string(options.forward.context)},
                       {"kernels", to_string(options.kernels)}});
}

// The sharded parameters of `module` and its children, in the order of registration.
void collect(torch::nn::Module& module, const std::string& prefix,
             std::vector<std::pair<std::string, ShardedParameter>>& named) {
  for (const auto& plain : module.named_parameters(/*recurse=*/false))
    throw UserError(
        "layers.materialize",
        "parameter '" + prefix + plain.key() +
            "' is a plain torch parameter, whose gradient no rank would sum; use an axonn layer in its place");
  if (const auto* layer = dynamic_cast<const ShardedModule*>(&module))
    for (const auto& [name, parameter] : layer->sharded_parameters()) {
      AXONN_CHECK(!parameter.materialized(), "layers.materialize", "parameter '", prefix + name,
                  "' has been materialized before as '", parameter.name(), "'");
      named.emplace_back(prefix + name, parameter);
    }
  for (const auto& child : module.named_children()) collect(*child.value(), prefix + child.key() + ".", named);
}

}  // namespace

Context::Context(Environment& environment, GridShape shape, ContextOptions options) {
  check_shape(shape, options.job_ranks.empty() ? environment.ranks() : static_cast<int64_t>(options.job_ranks.size()));
  check_options(options, shape);
  const int rank = rank_in_grid(environment, options.job_ranks);
  check_same_on_all_ranks(environment, shape, options, rank);
  options.device = choose_device(options.device, environment.local_rank());
  if (options.device.is_cuda()) set_gpu_kernels(options.gpu_kernels);
  impl_ = std::make_shared<Impl>(shape, std::move(options), rank);
  impl_->environment = &environment;
  impl_->communicators =
      std::make_unique<Communicators>(environment, impl_->grid, rank, impl_->options.device, impl_->options.job_ranks);
  if (impl_->options.forward.norm_rows == NormRows::automatic)
    for (const Axis axis : {Axis::x, Axis::y})
      if (shape[axis] > 1) impl_->communicators->any_sends_messages(axis);  // stream_layout() asks later
  impl_->scheduler = std::make_unique<Scheduler>(*impl_->communicators, impl_->grid, impl_->options.overlap,
                                                 impl_->options.forward.linear);
  if (impl_->options.gradient_programs.empty()) return;
  impl_->scheduler->set_gradient_sums(
      std::make_unique<GradientPrograms>(environment, *impl_->communicators, impl_->grid, rank, impl_->options.device,
                                         impl_->options.job_ranks, impl_->options.gradient_programs));
}

Context::Context(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::~Context() {
  if (impl_.use_count() > 0) impl_->close();
}
Context::Context(Context&&) noexcept = default;

Context Context::plan(GridShape shape, ContextOptions options, int rank) {
  check_options(options, shape);
  Context planned(std::make_shared<Impl>(shape, std::move(options), rank));
  check_gradient_programs(planned.options().gradient_programs, planned.grid());
  return planned;
}

const Grid& Context::grid() const { return impl_->grid; }
int Context::rank() const { return impl_->rank; }
const Coordinate& Context::at() const { return impl_->at; }
RowShare Context::row_share() const { return axonn::row_share(shape(), at(), options().forward.context); }
const ContextOptions& Context::options() const { return impl_->options; }
ArenaTypes Context::arena_types() const {
  const at::ScalarType wide = narrow(options().dtype) ? at::kFloat : options().dtype;
  return {.weights = options().dtype, .gradients = options().gradient_dtype.value_or(wide), .master = wide};
}

bool Context::planned() const { return impl_->scheduler == nullptr; }

Communicators& Context::communicators() {
  AXONN_ASSERT(impl_->communicators, "a planned context has no communicators");
  return *impl_->communicators;
}

Scheduler& Context::scheduler() {
  AXONN_ASSERT(impl_->scheduler, "a planned context has no scheduler");
  return *impl_->scheduler;
}

std::shared_ptr<Scheduler> Context::kept_scheduler() { return {impl_->shared_from_this(), impl_->scheduler.get()}; }

ContextHandle::ContextHandle(Context& context)
    : context_(context.impl_->shared_from_this(), &context.impl_->of_handles) {}

Context& ContextHandle::get() const {
  AXONN_CHECK(!context_->impl_->gone, "layers.context", kContextGone);
  return *context_;
}

void Context::set_overlap(const OverlapPolicy& policy) {
  scheduler().set_policy(policy);
  impl_->options.overlap = policy;
}

void Context::set_kernels(const KernelChoice& kernels) {
  AXONN_CHECK(planned() || !scheduler().in_step(), "layers.context",
              "kernels can change only between steps; call step.finish() first");
  impl_->options.kernels = kernels;
}

Parameters Context::materialize(torch::nn::Module& network, const MaterializeOptions& how) {
  std::vector<std::pair<std::string, ShardedParameter>> named, frozen;
  collect(network, "", named);
  AXONN_CHECK(!named.empty(), "layers.materialize", "the network has no axonn layer");
  const auto make = [&](auto& some, bool trained) {
    return Parameters(std::move(some), grid(), rank(), arena_types(), options().device, {how.seed, how.is_loaded},
                      planned() ? nullptr : kept_scheduler(), trained);
  };
  AXONN_CHECK(how.trains || !how.is_trained, "layers.materialize",
              "is_trained names what is trained, and with trains = false nothing is; leave one of them out");
  if (!how.is_trained) return make(named, how.trains);
  std::erase_if(named, [&](const auto& each) {
    if (how.is_trained(each.first)) return false;
    frozen.push_back(each);
    return true;
  });
  AXONN_CHECK(!named.empty(), "layers.materialize", "every parameter is frozen; train at least one of them, such as '",
              frozen.front().first, "'");
  const Parameters trained = make(named, true);
  return frozen.empty() ? trained : trained.with_frozen(make(frozen, false));
}

Step Context::begin_step(StepOptions options) {
  Scheduler& steps = scheduler();  // a planned context has none, and no environment
  std::shared_ptr<void> turn = impl_->environment->take_turn();
  steps.begin_step(options.micro_batches);
  impl_->turn = std::move(turn);
  return Step(*this);
}

void Context::end_step(void (Scheduler::*how)()) {
  const auto end = [this] {
    if (scheduler().in_step()) return;  // an error has left it open
    set_samples(std::nullopt);
    impl_->turn.reset();
  };
  try {
    (scheduler().*how)();
  } catch (...) {
    end();
    throw;
  }
  end();
}

void Step::finish() { context_->end_step(&Scheduler::finish); }
void Step::abandon() { context_->end_step(&Scheduler::abandon); }

void Context::set_samples(Samples samples) { impl_->samples = samples; }
void Context::set_samples(const std::optional<Samples>& samples) { impl_->samples = samples; }
const std::optional<Context::Samples>& Context::samples() const { return impl_->samples; }

}  // namespace axonn
