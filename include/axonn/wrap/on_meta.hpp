#pragma once

#include <cstdint>
#include <memory>

#include <torch/nn/module.h>

namespace axonn {

class Recording;

// Whether the constructors' values are wanted, or those of a file that is loaded after shard().
enum class MetaValues : uint8_t { drawn, loaded };

// The work of on_meta() around its function. One per thread; within another one it does nothing.
class OnMeta {
 public:
  explicit OnMeta(MetaValues initial);
  ~OnMeta();
  OnMeta(const OnMeta&) = delete;
  OnMeta& operator=(const OnMeta&) = delete;
  void made(torch::nn::Module& module) const;

 private:
  std::shared_ptr<Recording> recording_;  // null within another one
};

// Makes a module without memory, for networks that are larger than that of a rank:
//
//   auto net = axonn::on_meta([] { return std::make_shared<Net>(); });
//   auto parameters = axonn::shard(context, *net, {.units = {"blocks.*"}});
//
// Its tensors lie on LibTorch's device meta until shard() or parallelize() gives this rank its
// ranges, on the context's device. The operations of the constructors are recorded, and run again
// there, one parameter after the other: a rank holds its ranges and one whole parameter. Values,
// and the default generator afterwards, are those of the plain program: the generator is taken as
// it was when a constructor would have drawn. Every rank draws all values and keeps those of the
// grid's first rank. With MetaValues::loaded, only buffers are computed: load_state_dict() or
// load_checkpoint() reads the parameters, each rank its ranges, and before these, steps, saves and
// gathered() are a UserError that names a parameter without values.
//
// `make` returns a shared_ptr to a module, or a holder such as torch::nn::Sequential. Changes of
// the module, such as to(dtype) or torch::nn::init, belong in it. A tensor that is made with a
// device is made as usual. Each thread by itself; it communicates with nobody.
//
// UserError if a constructor reads values, such as by item(), or draws random numbers into a tensor
// that was made with a device; LibTorch's c10::Error if it reads by data_ptr(). In shard() on all
// ranks: if a parameter was written or converted after on_meta(), or constructors ran in another
// order on another rank. On the ranks that find it: if a tensor that was made with a device has
// changed since a constructor read it.
template <typename Make>
auto on_meta(const Make& make, MetaValues initial = MetaValues::drawn) {
  const OnMeta scope(initial);
  auto module = make();
  scope.made(*module);
  return module;
}

}  // namespace axonn
