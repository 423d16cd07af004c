#include "axonn/comm/each_reads.hpp"

#include <algorithm>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/comm/differing_ranks.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/host_name.hpp"

namespace axonn {

void each_rank_reads(Communicator& everyone, const std::function<void()>& read) {
  bool failed = true;
  try {
    all_ranks_or_none(everyone, [&] {
      read();
      failed = false;
    });
  } catch (const Error& error) {
    const std::vector<int> ranks = ranks_where(everyone, failed);
    if (std::ssize(ranks) == everyone.size()) throw;
    const std::vector<int> others = ranks_where(everyone, !failed);
    const std::string host = broadcast_text(everyone, host_name(), ranks.front()),
                      other_host = broadcast_text(everyone, host_name(), others.front());
    throw UserError(error.where(),
                    detail::concatenate(ranks_text(ranks), " cannot read what rank ", others.front(), " on host ",
                                        other_host, " can: rank ", ranks.front(), " on host ", host, ": ",
                                        error.sentence(), "; every host needs the same files"));
  }
}

}  // namespace axonn
