#pragma once

#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/pimpl.h>

namespace axonn {

class WrappedNetwork;

// A unit, as shard() finds it. Before shard() it does nothing.
class UnitBase {
 public:
  virtual ~UnitBase() = default;
  void join(std::shared_ptr<WrappedNetwork> network, int unit) {
    network_ = std::move(network);
    unit_ = unit;
  }

 protected:
  // One forward: the unit's parameters are whole while it lives.
  class Run {
   public:
    // `inputs`: the tensors among the arguments.
    Run(const UnitBase& unit, const std::vector<const at::Tensor*>& inputs);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    // Gathers again before backward enters the unit through these outputs, and changes them.
    // UserError if one lies in the memory of a parameter.
    void record(const std::vector<at::Tensor*>& outputs) const;

   private:
    std::shared_ptr<WrappedNetwork> network_;
    int unit_;
    std::shared_ptr<void> inputs_;
  };

 private:
  std::shared_ptr<WrappedNetwork> network_;  // null before shard()
  int unit_ = 0;
};

namespace detail {

// The tensors in a forward's arguments or result, in order. Other types have none. A Pointer is an
// at::Tensor*, const where T is.
template <typename T, typename Pointer>
void collect_tensors(T& value, std::vector<Pointer>& into) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, at::Tensor>) {
    if (value.defined()) into.push_back(&value);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply([&](auto&... each) { (collect_tensors(each, into), ...); }, value);
  } else if constexpr (requires { value.begin(), value.end(), value.size(); }) {
    for (auto&& each : value) collect_tensors(each, into);
  } else if constexpr (requires { value.has_value(), *value; }) {
    if (value.has_value()) collect_tensors(*value, into);
  } else if constexpr (requires { value.data(), value.batch_sizes(), value.sorted_indices(); }) {
    into.push_back(const_cast<Pointer>(&value.data()));  // a PackedSequence, whose data has no other access
  }
}

template <typename T>
struct ModuleOf {
  using type = T;
};
template <typename T>
  requires requires { typename T::ContainedType; }
struct ModuleOf<T> {
  using type = typename T::ContainedType;
};

}  // namespace detail

template <typename Module>
class UnitImpl : public Module, public UnitBase {
 public:
  using Module::Module;
  template <typename... Arguments>
  auto forward(Arguments&&... arguments) {
    return run_as_unit([this](auto&&... given) { return Module::forward(std::forward<decltype(given)>(given)...); },
                       std::forward<Arguments>(arguments)...);
  }
  // Of LSTM, GRU and RNN.
  template <typename... Arguments>
  auto forward_with_packed_input(Arguments&&... arguments) {
    return run_as_unit(
        [this](auto&&... given) { return Module::forward_with_packed_input(std::forward<decltype(given)>(given)...); },
        std::forward<Arguments>(arguments)...);
  }

 private:
  template <typename Forward, typename... Arguments>
  auto run_as_unit(const Forward& forward, Arguments&&... arguments) {
    std::vector<const at::Tensor*> inputs;
    (detail::collect_tensors(std::as_const(arguments), inputs), ...);
    const Run run(*this, inputs);
    auto output = forward(std::forward<Arguments>(arguments)...);
    std::vector<at::Tensor*> tensors;
    detail::collect_tensors(output, tensors);
    run.record(tensors);
    return output;
  }
};

// A typed member whose parameters are gathered when it computes, and freed afterwards (shard()):
//
//   axonn::Unit<torch::nn::LSTM> lstm{torch::nn::LSTMOptions(64, 64)};  // or your module class
//   auto [output, state] = lstm(x);
//   auto [packed, last] = lstm->forward_with_packed_input(sequences);
//
// It is constructed, registered and called as the module itself, and without shard() it is one.
// Arguments may be anything. Tensors of the result are found in tuples, vectors and optionals of
// any depth, and in packed sequences. No double backward.
template <typename T>
class Unit : public torch::nn::ModuleHolder<UnitImpl<typename detail::ModuleOf<T>::type>> {
 public:
  using Module = UnitImpl<typename detail::ModuleOf<T>::type>;
  using torch::nn::ModuleHolder<Module>::ModuleHolder;
  template <typename... Arguments>
  auto operator()(Arguments&&... arguments) {
    return this->impl_->forward(std::forward<Arguments>(arguments)...);
  }
};

}  // namespace axonn
