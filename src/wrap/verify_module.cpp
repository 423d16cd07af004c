#include "axonn/wrap/verify_module.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/comm/same_tensors.hpp"
#include "axonn/core/error.hpp"
#include "axonn/layers/loss.hpp"
#include "wrap/wrapped_network.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "wrap.verify";
constexpr AxisSet kEveryone = {Axis::x, Axis::y, Axis::z, Axis::data};
constexpr double kLeastGradient = 1e-3;  // share of the network's largest one
constexpr double kLearningRate = 1e-3;

std::vector<NamedTensor> tensors_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> all;
  for (const auto& each : module.named_parameters()) all.push_back({each.key(), each.value()});
  for (const auto& each : module.named_buffers()) all.push_back({each.key(), each.value()});
  return all;
}

void check_batches(const std::vector<BatchOfRows>& batches, int64_t groups) {
  AXONN_CHECK(!batches.empty(), kWhere, "there is no batch to compare with; give at least one");
  for (const BatchOfRows& batch : batches) {
    AXONN_CHECK(!batch.empty(), kWhere, "a batch has no tensor; give its inputs and what the loss needs");
    for (const at::Tensor& each : batch)
      AXONN_CHECK(each.dim() > 0 && each.size(0) == batch.front().size(0), kWhere,
                  "all tensors of a batch need the same number of rows in dim 0, got sizes ", batch.front().sizes(),
                  " and ", each.sizes());
    AXONN_CHECK(batch.front().size(0) >= groups, kWhere, "a batch needs a row for each of the z * data = ", groups,
                " parts of the grid, got ", batch.front().size(0));
  }
}

// The first rank's, on every rank.
std::vector<BatchOfRows> shared(Context& context, const std::vector<BatchOfRows>& batches) {
  Communicator& everyone = context.communicators().on_cpu(kEveryone);
  all_ranks_or_none(everyone, [&] { check_batches(batches, context.row_share().groups); });
  std::vector<NamedTensor> named;
  std::vector<BatchOfRows> copies = batches;
  for (BatchOfRows& batch : copies)
    for (at::Tensor& each : batch) {
      each = each.detach().clone();
      named.push_back({"batch " + std::to_string(&batch - copies.data()), each});
    }
  check_same_tensors(everyone, named, kWhere);
  for (const BatchOfRows& batch : copies) share(context, batch);
  return copies;
}

BatchOfRows rows_of(const BatchOfRows& batch, const RowShare& share) {
  const int64_t rows = batch.front().size(0), begin = rows * share.mine / share.groups,
                end = rows * (share.mine + 1) / share.groups;
  BatchOfRows mine;
  for (const at::Tensor& each : batch) mine.push_back(each.narrow(0, begin, end - begin));
  return mine;
}

at::Tensor loss_of(const PlainNetwork& network, const BatchOfRows& rows) {
  const at::Tensor sum = network.loss_sum(rows);
  AXONN_CHECK(sum.defined() && sum.numel() == 1 && sum.requires_grad(), kWhere,
              "loss_sum must give one number with a gradient, the sum over its rows");
  return sum.reshape({});
}

class PlainSide {
 public:
  PlainSide(PlainNetwork network, Context& context) : network_(std::move(network)) {
    std::vector<at::Tensor> all;
    for (const NamedTensor& each : tensors_of(*network_.module)) all.push_back(each.tensor);
    share(context, all);
    for (const auto& each : network_.module->named_parameters())
      if (each.value().requires_grad() && std::ranges::none_of(trained_, [&](const NamedTensor& before) {
            return before.tensor.is_same(each.value());
          }))
        trained_.push_back({each.key(), each.value()});
    std::vector<at::Tensor> once;
    for (const NamedTensor& each : trained_) once.push_back(each.tensor);
    optimizer_.emplace(once, torch::optim::SGDOptions(kLearningRate));
  }

  // Both networks have the same weights afterwards.
  void give_values(torch::nn::Module& other) const {
    const at::NoGradGuard no_grad;
    const std::vector<NamedTensor> from = tensors_of(*network_.module), to = tensors_of(other);
    bool alike = from.size() == to.size();
    for (size_t i = 0; i < from.size() && alike; ++i)
      alike = from[i].name == to[i].name && from[i].tensor.sizes() == to[i].tensor.sizes();
    AXONN_CHECK(alike, kWhere, "make_network has made two different networks; it must make the same at every call");
    for (size_t i = 0; i < from.size(); ++i) to[i].tensor.detach().copy_(from[i].tensor);
  }

  void check_repeats(const BatchOfRows& batch, double tolerance) const {
    const double once = loss_of(network_, batch).item<double>(), again = loss_of(network_, batch).item<double>();
    AXONN_CHECK(relative({again}, {once}) <= tolerance || once == again || std::isnan(once), kWhere,
                "two calls of the plain network gave the losses ", once, " and ", again,
                ": it draws random numbers; call eval() on its Dropout");
  }

  double backward(const BatchOfRows& batch) {
    optimizer_->zero_grad();
    const at::Tensor mean = loss_of(network_, batch) / static_cast<double>(batch.front().size(0));
    mean.backward();
    return mean.item<double>();
  }

  void step() { optimizer_->step(); }

  at::Tensor gradient(const std::string& name) const {
    const auto found = std::ranges::find(trained_, name, &NamedTensor::name);
    AXONN_ASSERT(found != trained_.end(), "a wrapped parameter that the plain network has not");
    return found->tensor.grad().defined() ? found->tensor.grad() : at::zeros_like(found->tensor);
  }

 private:
  PlainNetwork network_;
  std::vector<NamedTensor> trained_;  // each once, by its first name
  std::optional<torch::optim::SGD> optimizer_;
};

}  // namespace

Verification verify(Context& context, const std::function<PlainNetwork()>& make_network,
                    const std::vector<BatchOfRows>& batches, const VerifyOptions& options) {
  const at::ScalarType dtype = context.options().dtype;
  AXONN_CHECK(dtype == at::kDouble || dtype == at::kFloat, kWhere, "the context must be of fp64 or fp32, got ",
              c10::toString(dtype), ": bf16 and fp16 round more than a fault might change");
  const std::vector<BatchOfRows> all = shared(context, batches);
  const Tolerances tolerance = tolerances(dtype);
  PlainSide plain(make_network(), context);
  all_ranks_or_none(context.communicators().on_cpu(kEveryone),
                    [&] { plain.check_repeats(all.front(), tolerance.loss); });
  const PlainNetwork network = make_network();
  plain.give_values(*network.module);
  const WrappedModule wrapped = options.wrap(context, *network.module);
  torch::optim::SGD optimizer(wrapped.local(), torch::optim::SGDOptions(kLearningRate));

  const auto& slots = wrapped.parameters().arena().slots();
  const std::vector<FoundTensor>& trained = wrapped.network().found().trained;
  std::vector<double> losses, expected, worst(slots.size());
  for (const BatchOfRows& batch : all) {
    auto step = context.begin_step();
    const at::Tensor loss = mean(loss_of(network, rows_of(batch, context.row_share())),
                                 static_cast<double>(batch.front().size(0)), context);
    loss.backward();
    step.finish();
    losses.push_back(loss.item<double>());
    expected.push_back(plain.backward(batch));
    std::vector<Gap> gaps(slots.size());
    for (size_t i = 0; i < slots.size(); ++i)
      gaps[i].add(wrapped.local()[i].grad(), stored_part(trained[i].stored(plain.gradient(slots[i].name)), slots[i],
                                                         context.shape(), context.at()));
    const std::vector<double> differences = relative(context.communicators().on_cpu(kEveryone), gaps, kLeastGradient);
    for (size_t i = 0; i < slots.size(); ++i) worst[i] = std::max(worst[i], differences[i]);
    optimizer.step();
    plain.step();
  }
  Verification result;
  result.differences.push_back({"loss", relative(losses, expected), tolerance.loss});
  for (size_t i = 0; i < slots.size(); ++i)
    result.differences.push_back({"gradient " + slots[i].name, worst[i], tolerance.gradient});
  return result;
}

}  // namespace axonn
