#pragma once

#include "axonn/wrap/shard.hpp"

namespace axonn {

// While it lives, the steps that begin compute with the module and do not train it: its gradients
// are dropped, none is missing, and local() gets no .grad(). Gradients of its inputs are computed.
// So the modules of one Context take turns, such as the two networks of a GAN:
//
//   {
//     const axonn::FrozenGuard frozen(generator_parameters);
//     auto step = context.begin_step();
//     loss_of_discriminator(generator->forward(noise).detach()).backward();
//     step.finish();
//     discriminator_optimizer.step();
//   }
//   {
//     const axonn::FrozenGuard frozen(discriminator_parameters);
//     ...  // the generator's step
//   }
//
// Every rank of the grid makes it, between steps, else UserError. Guards of one module can be
// nested. A graph that was made in one step cannot be used in the next: call forward again.
class FrozenGuard {
 public:
  explicit FrozenGuard(WrappedModule parameters);
  ~FrozenGuard();
  FrozenGuard(const FrozenGuard&) = delete;
  FrozenGuard& operator=(const FrozenGuard&) = delete;

 private:
  WrappedModule parameters_;
};

}  // namespace axonn
