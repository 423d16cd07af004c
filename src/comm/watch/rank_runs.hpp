#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace axonn {

// Ranks as arithmetic sequences: a group of a grid of any size is one or two of them.
class RankRuns {
 public:
  struct Run {
    int first = 0;
    int count = 1;
    int stride = 1;
  };

  RankRuns() = default;
  explicit RankRuns(std::span<const int> ranks);  // ascending, or in the order of a group

  std::vector<int> ranks() const;
  bool within(int ranks) const;  // only ranks from 0 to ranks - 1, and not more of them
  std::string text() const;      // "ranks 0, 4 and 8", "rank 3", "ranks 0 to 4095", "ranks 0, 8, ... 4088"

  friend void to_json(nlohmann::json& json, const RankRuns& runs);
  friend void from_json(const nlohmann::json& json, RankRuns& runs);

 private:
  std::vector<Run> runs_;
};

}  // namespace axonn
