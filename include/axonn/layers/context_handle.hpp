#pragma once

#include <memory>

namespace axonn {

class Context;

// What layers, parameters and steps keep of their context, since the program may let it go before
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
