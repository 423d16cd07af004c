#include "axonn/wrap/frozen_guard.hpp"

#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/overlap/step/network_schedule.hpp"
#include "wrap/wrapped_network.hpp"

namespace axonn {

FrozenGuard::FrozenGuard(WrappedModule parameters) : parameters_(std::move(parameters)) {
  NetworkSchedule& schedule = parameters_.parameters().schedule();
  AXONN_CHECK(!schedule.scheduler().in_step(), "wrap.frozen",
              "a module can be frozen only between steps; make the FrozenGuard before context.begin_step()");
  schedule.rest(true);
}

FrozenGuard::~FrozenGuard() { parameters_.parameters().schedule().rest(false); }

}  // namespace axonn
