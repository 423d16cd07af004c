#pragma once

#include <memory>

namespace axonn {

class Context;

// The hold of layers, parameters and steps on their context, which the program may let go before
// them. It keeps the context's memory; every use after the context has gone is a UserError.
class ContextHandle {
 public:
  ContextHandle(Context& context);
  operator Context&() const { return get(); }
  Context* operator->() const { return &get(); }

 private:
  Context& get() const;

  std::shared_ptr<Context> context_;
};

}  // namespace axonn
