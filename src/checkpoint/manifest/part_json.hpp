#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/manifest/manifest.hpp"

// A part in manifest.json of format 4: a list of 12 values.
namespace axonn {

nlohmann::ordered_json part_to_json(const Manifest::Part& part);

// The values of one part after the other, as a parser gives them.
class PartValues {
 public:
  void begin();  // a new part
  void take(int64_t number);
  void take(uint64_t number);
  void take(std::string&& text);
  void take_other();  // a value that is neither
  // UserError if these are no values of a part.
  Manifest::Part part() const;

 private:
  static constexpr size_t kValues = 12, kReplicated = 5, kChecksum = 10;

  void count(bool right);

  size_t values_ = 0;
  std::optional<size_t> wrong_;  // the first value that is no number, or no text
  std::array<int64_t, kValues> numbers_ = {};
  std::string replicated_, checksum_;
};

}  // namespace axonn
