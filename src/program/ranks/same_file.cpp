#include "program/ranks/same_file.hpp"

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/host_name.hpp"
#include "axonn/core/utf8.hpp"
#include "core/files.hpp"
#include "program/ranks/differing_ranks.hpp"
#include "program/ranks/each_reads.hpp"

namespace axonn {

void check_same_file(Communicator& everyone, const std::filesystem::path& file, const std::string& what,
                     const std::string& flag) {
  std::string hash;
  each_rank_reads(everyone, [&] { hash = disk::hex(disk::xxh64_of_file(file)); });
  const std::vector<int> others = ranks_where(everyone, hash != broadcast_text(everyone, hash, 0));
  if (others.empty()) return;
  const std::string here = shown_name(file.string()) + " on host " + host_name();
  const std::string there = broadcast_text(everyone, here, others.front()),
                    on_rank_0 = broadcast_text(everyone, here, 0);
  throw UserError("program.ranks",
                  detail::concatenate(ranks_have(others), " another ", what, " than rank 0: rank ", others.front(), " ",
                                      there, ", rank 0 ", on_rank_0, "; copy the same to every host, or let ", flag,
                                      " name one that all hosts see"));
}

}  // namespace axonn
