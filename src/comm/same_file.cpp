#include "axonn/comm/same_file.hpp"

#include <vector>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/comm/differing_ranks.hpp"
#include "axonn/comm/each_reads.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/host_name.hpp"
#include "axonn/core/utf8.hpp"
#include "core/files.hpp"

namespace axonn {

void check_same_content(Communicator& everyone, uint64_t hash, const ReadFile& read) {
  const std::string mine = disk::hex(hash);
  const std::vector<int> others = ranks_where(everyone, mine != broadcast_text(everyone, mine, 0));
  if (others.empty()) return;
  const std::string here = shown_name(read.file.string()) + " on host " + host_name();
  const std::string there = broadcast_text(everyone, here, others.front()),
                    on_rank_0 = broadcast_text(everyone, here, 0);
  throw UserError("comm.same_file",
                  detail::concatenate(ranks_have(others), " another ", read.what, " than rank 0: rank ", others.front(),
                                      " ", there, ", rank 0 ", on_rank_0, "; copy the same to every host, or let ",
                                      read.by, " name one that all hosts see"));
}

void check_same_file(Communicator& everyone, const ReadFile& read) {
  uint64_t hash = 0;
  each_rank_reads(everyone, [&] { hash = disk::xxh64_of_file(read.file); });
  check_same_content(everyone, hash, read);
}

}  // namespace axonn
