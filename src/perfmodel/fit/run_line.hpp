#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/perfmodel/fit/measured_runs.hpp"

namespace axonn {

// One line of a CSV file by the names of its columns. Every error is a UserError that names the
// line and the column. The names and cells must outlive it.
class RunLine {
 public:
  RunLine(std::string place, const std::vector<std::string_view>& columns, const std::vector<std::string_view>& cells);

  const std::string& place() const { return place_; }
  std::optional<std::string_view> find(std::string_view column) const;
  std::string_view text(std::string_view column) const;
  double number(std::string_view column) const;  // above 0
  int64_t whole(std::string_view column, int64_t least = 1) const;

 private:
  std::string place_;
  std::map<std::string_view, std::string_view> cells_;
};

// The run that the line describes; `network` and `machine` where it names none.
MeasuredRun run_of(const RunLine& line, const NetworkModel* network, const Machine* machine);

}  // namespace axonn
