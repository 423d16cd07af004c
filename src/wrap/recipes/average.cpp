#include "axonn/wrap/average.hpp"

#include <utility>

#include <ATen/core/grad_mode.h>

#include "axonn/core/error.hpp"
#include "axonn/optim/average_rate.hpp"
#include "wrap/wrapped_network.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "wrap.average";

}  // namespace

Average::Average(WrappedModule parameters, double decay) : parameters_(std::move(parameters)), decay_(decay) {
  AXONN_CHECK(decay >= 0 && decay < 1, kWhere, "the decay of an average must be at least 0 and below 1, got ", decay);
  parameters_.network().check_values();
  for (const at::Tensor& each : parameters_.local()) average_.push_back(each.detach().clone());
}

void Average::update() {
  AXONN_CHECK(!in_use_, kWhere,
              "the average is in use, so the weights are not there; let the result of use() go first");
  const at::NoGradGuard no_grad;
  const double rate = average_rate(decay_, ++updates_);
  for (size_t i = 0; i < average_.size(); ++i) average_[i].lerp_(parameters_.local()[i], rate);
}

void Average::exchange() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < average_.size(); ++i) {
    const at::Tensor weights = parameters_.local()[i].clone();
    parameters_.local()[i].copy_(average_[i]);
    average_[i].copy_(weights);
  }
}

Average::InUse::InUse(Average& average) : average_(average) {
  AXONN_CHECK(!average_.in_use_, kWhere, "the average is in use already; let the other result of use() go first");
  average_.exchange();
  average_.in_use_ = true;
  average_.parameters_.network().stand_in(true);
}

Average::InUse::~InUse() {
  average_.exchange();
  average_.in_use_ = false;
  average_.parameters_.network().stand_in(false);
}

}  // namespace axonn
