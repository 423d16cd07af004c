#include "checkpoint/manifest/part_json.hpp"

#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "checkpoint/manifest/manifest_checks.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "checkpoint.manifest";

std::map<std::string, AxisSet> sets_by_text() {
  std::map<std::string, AxisSet> sets = {{AxisSet().to_string(), AxisSet()}};
  for (const Axis axis : kAxes) {
    const auto before = sets;
    for (const auto& [text, set] : before) sets.emplace((set | axis).to_string(), set | axis);
  }
  return sets;
}

AxisSet axis_set(const std::string& text) {
  static const std::map<std::string, AxisSet> sets = sets_by_text();
  const auto found = sets.find(text);
  AXONN_CHECK(found != sets.end(), kWhere, "'", text, "' is no set of axes");
  return found->second;
}

// -1, which is on no grid, for what is no coordinate.
int coordinate(int64_t number) { return std::in_range<int>(number) ? static_cast<int>(number) : -1; }

}  // namespace

nlohmann::ordered_json part_to_json(const Manifest::Part& part) {
  return {part.file,
          part.at.x,
          part.at.y,
          part.at.z,
          part.at.data,
          part.replicated.to_string(),
          part.header.begin,
          part.header.end,
          part.data.begin,
          part.data.end,
          disk::hex(part.xxh64),
          part.places};
}

void PartValues::begin() {
  values_ = 0;
  wrong_.reset();
}

void PartValues::take(int64_t number) {
  if (values_ < kValues) numbers_[values_] = number;
  count(values_ != kReplicated && values_ != kChecksum);
}

void PartValues::take(uint64_t number) {
  if (std::in_range<int64_t>(number))
    take(static_cast<int64_t>(number));
  else
    take_other();
}

void PartValues::take(std::string&& text) {
  if (values_ == kReplicated) replicated_.swap(text);
  if (values_ == kChecksum) checksum_.swap(text);
  count(values_ == kReplicated || values_ == kChecksum);
}

void PartValues::take_other() { count(false); }

void PartValues::count(bool right) {
  if (!right && !wrong_) wrong_ = values_;
  ++values_;
}

Manifest::Part PartValues::part() const {
  AXONN_CHECK(values_ == kValues, kWhere, "a part of ", values_, " members");
  AXONN_CHECK(!wrong_, kWhere, "value ", wrong_.value_or(0), " of a part is of a wrong type");
  return {.file = static_cast<size_t>(numbers_[0]),
          .at = {coordinate(numbers_[1]), coordinate(numbers_[2]), coordinate(numbers_[3]), coordinate(numbers_[4])},
          .replicated = axis_set(replicated_),
          .header = {numbers_[6], numbers_[7]},
          .data = {numbers_[8], numbers_[9]},
          .xxh64 = hash_of_hex(checksum_),
          .places = static_cast<size_t>(numbers_[11])};
}

}  // namespace axonn
