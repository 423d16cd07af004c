#include "axonn/comm/same_tensors.hpp"

#include <sstream>
#include <string>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"

namespace axonn {
namespace {

std::string described(const NamedTensor& each) {
  std::ostringstream text;
  text << "'" << each.name << "' " << each.tensor.sizes() << " of " << c10::toString(each.tensor.scalar_type());
  return text.str();
}

}  // namespace

void check_same_tensors(Communicator& ranks, const std::vector<NamedTensor>& tensors, const char* where) {
  std::string mine;
  for (const NamedTensor& each : tensors) mine += described(each) + '\n';
  std::istringstream of_rank_0(broadcast_text(ranks, mine, 0));
  std::istringstream of_this_rank(mine);
  all_ranks_or_none(ranks, [&] {
    std::string here = "x", there = "x";
    while (!here.empty() || !there.empty()) {
      if (!std::getline(of_this_rank, here)) here.clear();
      if (!std::getline(of_rank_0, there)) there.clear();
      AXONN_CHECK(here == there, where, "rank ", ranks.group().ranks[static_cast<size_t>(ranks.rank())], " has ",
                  here.empty() ? "no more tensors" : here, " where rank ", ranks.group().ranks.front(), " has ",
                  there.empty() ? "no more tensors" : there, "; make the same tensors on every rank");
    }
  });
}

}  // namespace axonn
