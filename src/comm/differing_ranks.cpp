#include "axonn/comm/differing_ranks.hpp"

#include <ATen/ops/empty.h>

namespace axonn {

std::vector<int> ranks_where(Communicator& everyone, bool here) {
  const at::Tensor mine = at::empty({1}, at::kInt), all = at::empty({everyone.size()}, at::kInt);
  mine.fill_(here ? 1 : 0);
  everyone.all_gather(mine, all).wait();
  std::vector<int> found;
  for (int rank = 0; rank < everyone.size(); ++rank)
    if (all.const_data_ptr<int>()[rank] != 0) found.push_back(rank);
  return found;
}

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr size_t kMost = 4;
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (size_t i = 0; i < ranks.size() && i < kMost; ++i) text += (i == 0 ? " " : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > kMost) text += " and " + std::to_string(ranks.size() - kMost) + " more";
  return text;
}

std::string ranks_have(const std::vector<int>& ranks) {
  return ranks_text(ranks) + (ranks.size() == 1 ? " has" : " have");
}

}  // namespace axonn
