#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace axonn {

// Under this key the dispatcher comes to followed_call() before autograd, and before it takes
// composite operations apart. LibTorch keeps it for tests and gives it no meaning.
inline constexpr c10::DispatchKey kFollowing = c10::DispatchKey::TESTING_ONLY_GenericMode;

// Calls the operation, and checks it if a tensor among its arguments is followed
// (layout_check.hpp).
void followed_call(const c10::OperatorHandle& operation, c10::Stack* stack);

}  // namespace axonn
