#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "axonn/config/option_table.hpp"

namespace axonn {

// A value that a table binds: how it is written, and which values are allowed. One class per kind,
// and make_field() chooses it.
class OptionField {
 public:
  using Json = nlohmann::ordered_json;
  using Words = std::vector<std::string>;
  enum class Takes : uint8_t { none, one, some, any };  // words after the flag; any: also none

  virtual ~OptionField() = default;
  virtual Takes takes() const { return Takes::one; }
  virtual std::string type() const = 0;  // in the help: "INT"
  virtual std::string need() const = 0;  // in errors: "a whole number"
  virtual Json json() const = 0;
  virtual std::string text() const = 0;  // as in a flag

  // From a file. Returns false when the value is of another kind. A value of the right kind that is
  // not allowed is a UserError that begins with `subject`. Without `store` the value is only
  // checked.
  virtual bool read(const Json& value, const std::string& subject, bool store) = 0;
  // From the command line.
  virtual void read(const Words& words, const std::string& flag) = 0;
};

// "1,2" "3" -> 1 2 3. CLI11 gives one empty word for an empty list.
OptionField::Words split(const OptionField::Words& words);

std::unique_ptr<OptionField> make_field(int64_t& value, Whole whole);
std::unique_ptr<OptionField> make_field(int& value, Whole whole);
std::unique_ptr<OptionField> make_field(double& value);
std::unique_ptr<OptionField> make_field(bool& value);
std::unique_ptr<OptionField> make_field(std::string& value);
std::unique_ptr<OptionField> make_field(std::vector<std::string>& values);
std::unique_ptr<OptionField> make_field(std::vector<int64_t>& values, Whole whole);
std::unique_ptr<OptionField> make_field(TextValue value);
std::unique_ptr<OptionField> make_field(TextValues values);

}  // namespace axonn
