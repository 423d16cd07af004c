#include "axonn/perfmodel/machine/machine.hpp"

#include <algorithm>
#include <limits>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

struct Division {
  std::vector<int64_t> sizes;
  int64_t left = 0, unit = 1;            // units that are not divided yet, and their GPUs
  const MachineLevel* misfit = nullptr;  // the level that `left` does not fill
};

// Divides the GPUs among the levels, up to the first that they do not fill.
Division divide(const Machine& machine, int64_t gpus) {
  Division division = {.left = gpus};
  int64_t& left = division.left;
  for (const MachineLevel& level : machine.levels) {
    if (left == 1 && !division.sizes.empty()) break;
    const bool last = &level == &machine.levels.back();
    const int64_t here = last ? left : std::min(level.size, left);
    if (left % here != 0 || (last && level.size != 0 && left > level.size)) {
      division.misfit = &level;
      break;
    }
    division.sizes.push_back(here);
    left /= here;
    division.unit *= here;
  }
  return division;
}

}  // namespace

int64_t Machine::node_size() const {
  int64_t size = 1;
  for (size_t level = 0; level + 1 < levels.size(); ++level) size *= levels[level].size;
  return size;
}

double Machine::measured_gbps(int64_t inner, int64_t size) const {
  const MeasuredBandwidth* best = nullptr;
  for (const MeasuredBandwidth& row : measured) {
    if (row.inner > inner || row.size > size) continue;
    if (best == nullptr || row.inner > best->inner || (row.inner == best->inner && row.size > best->size)) best = &row;
  }
  AXONN_CHECK(best != nullptr, "perfmodel.machine", "machine ", name, " has no measured bandwidth for groups of ", size,
              " ranks ", inner, " apart", measured.empty() ? "; its [[measured]] table is empty" : "");
  return best->gbps;
}

std::vector<int64_t> level_sizes(const Machine& machine, int64_t gpus) {
  AXONN_CHECK(gpus >= 1 && gpus <= std::numeric_limits<int>::max(), "perfmodel.machine",
              "the number of GPUs must be from 1 to 2147483647, got ", gpus);
  const Division division = divide(machine, gpus);
  if (division.misfit == nullptr) return division.sizes;
  const int64_t size = division.misfit->size;
  AXONN_CHECK(division.misfit != &machine.levels.back(), "perfmodel.machine", "machine ", machine.name, " has ",
              size * division.unit, " GPUs, got ", gpus);
  const int64_t whole = division.unit * std::min(size, division.left), below = gpus / whole * whole;
  throw UserError(
      "perfmodel.machine",
      detail::concatenate(gpus, " GPUs do not fill units of ", whole, " (", division.misfit->name, ") of machine ",
                          machine.name, "; the nearest counts that do are ", below, " and ", below + whole));
}

bool fills_levels(const Machine& machine, int64_t gpus) { return divide(machine, gpus).misfit == nullptr; }

}  // namespace axonn
