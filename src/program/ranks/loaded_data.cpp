#include "axonn/program/ranks/loaded_data.hpp"

#include <sstream>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/host_name.hpp"
#include "axonn/core/utf8.hpp"
#include "axonn/comm/differing_ranks.hpp"

namespace axonn {
namespace {

// A NUL ends each: no name of a file and no text in JSON has one.
constexpr char kEnd = '\0';

std::string values_of(const LoadedData& data) {
  std::string values;
  for (const LoadedData::Fact& fact : data.facts) values += fact.value + kEnd;
  return values + std::to_string(data.fingerprint) + kEnd;
}

std::string shown(const std::string& value) {
  constexpr size_t kMost = 60;
  return shown_name(value.size() <= kMost ? value : value.substr(0, kMost) + "...");
}

std::string others_text(const std::string& there, const std::string& on_rank_0) {
  if (there == on_rank_0) return "";
  const auto text = [](const std::string& left_out) { return left_out.empty() ? "left out nothing" : left_out; };
  return detail::concatenate(" (there: ", text(there), "; on rank 0: ", text(on_rank_0), ")");
}

}  // namespace

void check_ranks_read_the_same(Communicator& everyone, const LoadedData& mine) {
  const std::string values = values_of(mine), of_rank_0 = broadcast_text(everyone, values, 0);
  const std::vector<int> others = ranks_where(everyone, values != of_rank_0);
  if (others.empty()) return;
  const std::string host = broadcast_text(everyone, host_name(), 0),
                    other_host = broadcast_text(everyone, host_name(), others.front());
  const std::string left_out = broadcast_text(everyone, mine.left_out, 0),
                    other_left_out = broadcast_text(everyone, mine.left_out, others.front());
  std::istringstream here(of_rank_0), there(broadcast_text(everyone, values, others.front()));
  std::string value, other_value, differs = "the content of the files differs";
  for (const LoadedData::Fact& fact : mine.facts) {
    std::getline(here, value, kEnd), std::getline(there, other_value, kEnd);
    if (value == other_value) continue;
    differs = detail::concatenate(fact.name, " is ", shown(other_value), " there and ", shown(value), " on rank 0");
    break;
  }
  throw UserError(
      "program.data",
      detail::concatenate(ranks_have(others), " read other data than rank 0: rank ", others.front(), " on host ",
                          other_host, ", rank 0 on host ", host, "; ", differs, others_text(other_left_out, left_out),
                          "; copy the same files to every host, or let --data name a folder that all see"));
}

}  // namespace axonn
