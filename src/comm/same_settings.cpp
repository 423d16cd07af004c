#include "axonn/comm/same_settings.hpp"

#include <sstream>
#include <string>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"

namespace axonn {
namespace {

std::string shown(const std::string& value) { return value.empty() ? "nothing" : value; }

}  // namespace

void check_same_settings(Communicator& everyone, const std::vector<Setting>& settings) {
  std::string mine;
  for (const Setting& setting : settings) mine += setting.value + '\n';
  std::istringstream of_rank_0(broadcast_text(everyone, mine, 0));
  const std::vector<int>& ranks = everyone.group().ranks;
  all_ranks_or_none(everyone, [&] {
    for (const auto& [name, value] : settings) {
      std::string first;
      std::getline(of_rank_0, first);
      AXONN_CHECK(value == first, "comm.same_settings", "rank ", ranks[static_cast<size_t>(everyone.rank())], " has ",
                  name, " = ", shown(value), " and rank ", ranks.front(), " has ", shown(first),
                  "; give all ranks the same (mpirun passes a variable to other hosts with -x NAME)");
    }
  });
}

}  // namespace axonn
