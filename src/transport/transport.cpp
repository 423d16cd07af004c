#include "transport/transport.hpp"

#include "axonn/core/error.hpp"

namespace axonn {

std::string other_size(int peer, size_t sent, int rank, size_t expected) {
  return detail::concatenate("rank ", peer, " sent ", sent, " bytes, but rank ", rank, " expects ", expected,
                             "; the ranks call different collectives");
}

}  // namespace axonn
