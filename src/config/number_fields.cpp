// Fields of numbers and switches.
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "config/option_field.hpp"

namespace axonn {
namespace {

using Json = OptionField::Json;
using Words = OptionField::Words;

constexpr const char* kWhere = "config.options";

template <typename Number>
Number parse_number(const std::string& word, const std::string& flag, std::string_view need) {
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  AXONN_CHECK(error == std::errc() && end == word.data() + word.size(), kWhere, flag, " must be ", need, ", got '",
              word, "'");
  return value;
}

bool has_suffix(const std::string& word) {
  return !word.empty() && std::string_view("kMG").find(word.back()) != std::string_view::npos;
}

void check_range(int64_t value, const Whole& whole, const std::string& subject) {
  constexpr auto kNoMost = std::numeric_limits<int64_t>::max();
  if (value >= whole.least && value <= whole.most) return;
  const std::string range = whole.most == kNoMost ? detail::concatenate("at least ", whole.least)
                                                  : detail::concatenate("from ", whole.least, " to ", whole.most);
  throw UserError(kWhere, detail::concatenate(subject, " must be ", range, ", got ", value));
}

int64_t parse_whole(const std::string& word, const std::string& flag, const Whole& whole) {
  const int64_t value =
      has_suffix(word) ? parse_count(word, flag, whole.suffixes) : parse_number<int64_t>(word, flag, "a whole number");
  check_range(value, whole, flag);
  return value;
}

template <typename Integer>
bool in_range(const Json& value) {
  if (value.is_number_unsigned())
    return value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<Integer>::max());
  return value.get<int64_t>() >= std::numeric_limits<Integer>::min() &&
         value.get<int64_t>() <= std::numeric_limits<Integer>::max();
}

// Nothing when it is not a whole number.
std::optional<int64_t> read_whole(const Json& value, const std::string& subject, const Whole& whole) {
  if (value.is_string() && whole.suffixes == Suffixes::binary)
    return parse_whole(value.get<std::string>(), subject, whole);
  if (!value.is_number_integer()) return std::nullopt;
  AXONN_CHECK(in_range<int64_t>(value), kWhere, subject, " is out of range: ", value.dump());
  const auto number = value.get<int64_t>();
  check_range(number, whole, subject);
  return number;
}

class WholeField final : public OptionField {
 public:
  WholeField(int64_t& value, Whole whole) : value_(value), whole_(whole) {}
  std::string type() const override { return "INT"; }
  std::string need() const override { return "a whole number"; }
  Json json() const override { return value_; }
  std::string text() const override {
    const bool large = whole_.suffixes == Suffixes::binary && value_ >= 1 << 20;
    return large ? binary_count_text(value_) : std::to_string(value_);
  }
  bool read(const Json& value, const std::string& subject, bool store) override {
    const auto number = read_whole(value, subject, whole_);
    if (number && store) value_ = *number;
    return number.has_value();
  }
  void read(const Words& words, const std::string& flag) override { value_ = parse_whole(words.back(), flag, whole_); }

 private:
  int64_t& value_;
  Whole whole_;
};

class IntField final : public OptionField {
 public:
  IntField(int& value, Whole whole) : value_(value), whole_(whole) {}
  std::string type() const override { return "INT"; }
  std::string need() const override { return "a whole number"; }
  Json json() const override { return value_; }
  std::string text() const override { return std::to_string(value_); }
  bool read(const Json& value, const std::string& subject, bool store) override {
    if (!value.is_number_integer()) return false;
    AXONN_CHECK(in_range<int>(value), kWhere, subject, " is out of range: ", value.dump());
    check_range(value.get<int>(), whole_, subject);
    if (store) value_ = value.get<int>();
    return true;
  }
  void read(const Words& words, const std::string& flag) override {
    value_ = parse_number<int>(words.back(), flag, "a whole number");
    check_range(value_, whole_, flag);
  }

 private:
  int& value_;
  Whole whole_;
};

class NumberField final : public OptionField {
 public:
  explicit NumberField(double& value) : value_(value) {}
  std::string type() const override { return "NUMBER"; }
  std::string need() const override { return "a number"; }
  Json json() const override { return value_; }
  std::string text() const override { return detail::concatenate(value_); }
  bool read(const Json& value, const std::string& subject, bool store) override {
    if (!value.is_number()) return false;
    const auto number = value.get<double>();
    AXONN_CHECK(std::isfinite(number), kWhere, subject, " must be a finite number");
    if (store) value_ = number;
    return true;
  }
  void read(const Words& words, const std::string& flag) override {
    value_ = parse_number<double>(words.back(), flag, "a number");
    AXONN_CHECK(std::isfinite(value_), kWhere, flag, " must be a finite number, got '", words.back(), "'");
  }

 private:
  double& value_;
};

class FlagField final : public OptionField {
 public:
  explicit FlagField(bool& value) : value_(value) {}
  Takes takes() const override { return Takes::none; }
  std::string type() const override { return ""; }
  std::string need() const override { return "true or false"; }
  Json json() const override { return value_; }
  std::string text() const override { return value_ ? "yes" : "no"; }
  bool read(const Json& value, const std::string&, bool store) override {
    if (!value.is_boolean()) return false;
    if (store) value_ = value.get<bool>();
    return true;
  }
  void read(const Words& words, const std::string&) override { value_ = words.back() == "true"; }

 private:
  bool& value_;
};

class WholesField final : public OptionField {
 public:
  WholesField(std::vector<int64_t>& values, Whole whole) : values_(values), whole_(whole) {}
  Takes takes() const override { return Takes::any; }
  std::string type() const override { return "INT,..."; }
  std::string need() const override { return "a whole number or a list of whole numbers"; }
  Json json() const override { return values_; }
  std::string text() const override { return join(values_, ","); }
  bool read(const Json& value, const std::string& subject, bool store) override {
    std::vector<int64_t> numbers;
    for (const Json& item : value.is_array() ? value : Json::array({value})) {
      const auto number = read_whole(item, subject, whole_);
      if (!number) return false;
      numbers.push_back(*number);
    }
    if (store) values_ = std::move(numbers);
    return true;
  }
  void read(const Words& words, const std::string& flag) override {
    values_.clear();
    for (const std::string& word : split(words)) values_.push_back(parse_whole(word, flag, whole_));
  }

 private:
  std::vector<int64_t>& values_;
  Whole whole_;
};

}  // namespace

std::unique_ptr<OptionField> make_field(int64_t& value, Whole whole) {
  return std::make_unique<WholeField>(value, whole);
}
std::unique_ptr<OptionField> make_field(int& value, Whole whole) { return std::make_unique<IntField>(value, whole); }
std::unique_ptr<OptionField> make_field(double& value) { return std::make_unique<NumberField>(value); }
std::unique_ptr<OptionField> make_field(bool& value) { return std::make_unique<FlagField>(value); }
std::unique_ptr<OptionField> make_field(std::vector<int64_t>& values, Whole whole) {
  return std::make_unique<WholesField>(values, whole);
}

}  // namespace axonn
