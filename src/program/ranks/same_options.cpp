#include "program/ranks/same_options.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"

namespace axonn {

void check_same_options(Communicator& everyone, const OptionTable& table) {
  const std::string of_rank_0 = broadcast_text(everyone, table.to_json(), 0);
  std::vector<std::string> keys = table.keys();
  std::erase(keys, "data");  // each host may have its copy in another place
  all_ranks_or_none(everyone, [&] {
    const auto difference = table.first_difference(of_rank_0, keys);
    if (!difference) return;
    std::string flag = difference->key;
    std::ranges::replace(flag, '_', '-');
    throw UserError(
        "program.options",
        detail::concatenate("rank ", everyone.rank(), " has --", flag, " ", difference->mine, " and rank 0 has ",
                            difference->theirs, "; start all ranks with the same flags and the same --config file"));
  });
}

}  // namespace axonn
