#include "axonn/terms/optimizer_kind.hpp"

#include "axonn/core/error.hpp"

namespace axonn {

int64_t optimizer_moments(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd:
      return 0;
    case OptimizerKind::sgd_momentum:
      return 1;
    case OptimizerKind::adamw:
      return 2;
  }
  throw InternalError("terms.optimizer", detail::concatenate("no optimizer ", static_cast<int>(kind)));
}

}  // namespace axonn
