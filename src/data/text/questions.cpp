#include "axonn/data/text/questions.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "axonn/core/json/json_depth.hpp"
#include "axonn/core/text.hpp"
#include "axonn/core/utf8.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "data.questions";
constexpr size_t kFewestEndings = 2;

// llm.c's file: 256 numbers of 32 bits, of which the first are kMagic, kVersion, and the number of
// questions. Then each question in numbers of 16 bits: kBegin, its bytes, its index, its label, the
// number of its endings, and for the context and each ending their number of tokens and the tokens.
// All numbers are little-endian.
constexpr uint32_t kMagic = 20240522, kVersion = 1;
constexpr uint32_t kBegin = 65535;
constexpr size_t kHeaderBytes = 1024;

// A number of `size` bytes.
uint32_t number_at(std::string_view bytes, size_t place, size_t size) {
  uint32_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint32_t{static_cast<unsigned char>(bytes[place + i])} << (8 * i);
  return value;
}

bool is_of_llmc(std::string_view bytes) { return bytes.size() >= 4 && number_at(bytes, 0, 4) == kMagic; }

class LlmcFile {
 public:
  LlmcFile(std::string name, std::string_view bytes) : name_(std::move(name)), bytes_(bytes) {}

  std::vector<Question> questions() {
    check(bytes_.size() >= kHeaderBytes, 0, "its header must have 1024 bytes");
    check(number_at(bytes_, 4, 4) == kVersion, 4, "its version must be 1");
    const uint32_t count = number_at(bytes_, 8, 4);
    std::vector<Question> all;
    for (uint32_t i = 0; i < count; ++i) all.push_back(question());
    check(place_ == bytes_.size(), place_, "its header has fewer questions than follow");
    return all;
  }

 private:
  Question question() {
    const size_t begin = place_;
    check(next() == kBegin, begin, "a question must begin with 65535");
    const uint32_t bytes = next();
    next();  // its index
    Question read;
    read.label = next();
    const uint32_t endings = next();
    read.context = tokens();
    for (uint32_t i = 0; i < endings; ++i) read.endings.push_back({.tokens = tokens()});
    check(place_ - begin == bytes, begin, "a question must have as many bytes as it says");
    check(endings >= kFewestEndings, begin, "a question needs at least two endings");
    check(read.label < endings, begin, "a label must be the number of an ending, from 0");
    return read;
  }

  std::vector<int32_t> tokens() {
    const size_t begin = place_;
    std::vector<int32_t> read;
    for (uint32_t left = next(); left > 0; --left) read.push_back(static_cast<int32_t>(next()));
    check(!read.empty(), begin, "a context and an ending need at least one token each");
    return read;
  }

  uint32_t next() {
    check(bytes_.size() - place_ >= 2, place_, "it is cut short");
    place_ += 2;
    return number_at(bytes_, place_ - 2, 2);
  }

  void check(bool good, size_t byte, std::string_view need) const {
    AXONN_CHECK(good, kWhere, name_, " is no whole file of HellaSwag, at byte ", byte, ": ", need,
                "; make it again with llm.c's hellaswag.py");
  }

  std::string name_;
  std::string_view bytes_;
  size_t place_ = kHeaderBytes;
};

// The value of the first of these keys that is there, or null.
const nlohmann::json& member(const nlohmann::json& line, std::initializer_list<const char*> keys) {
  static const nlohmann::json kNothing;
  for (const char* key : keys)
    if (const auto found = line.find(key); found != line.end()) return *found;
  return kNothing;
}

// One line of JSON. `place` is file and line, for errors.
class JsonLine {
 public:
  JsonLine(std::string place, const Tokenizer& tokenizer) : place_(std::move(place)), tokenizer_(tokenizer) {}

  Question question(std::string_view line) const {
    nlohmann::json file;
    if (is_shallow_json(line)) file = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    check(file.is_object(), "it must be an object of JSON");
    const nlohmann::json &context = member(file, {"ctx", "context"}), &endings = member(file, {"endings"}),
                         &label = member(file, {"label"});
    check(is_text(context), "'ctx' or 'context' must be a text that is not empty");
    check(
        endings.is_array() && endings.size() >= kFewestEndings && std::all_of(endings.begin(), endings.end(), is_text),
        "'endings' must be a list of at least two texts that are not empty");
    check(label.is_number_unsigned() && label.get<uint64_t>() < endings.size(),
          "'label' must be the number of the right ending, from 0");
    Question read{.context = encoded(text_of(context)), .endings = {}, .label = label.get<size_t>()};
    for (const nlohmann::json& ending : endings) read.endings.push_back(ending_of(text_of(ending)));
    return read;
  }

 private:
  static bool is_text(const nlohmann::json& value) { return value.is_string() && !text_of(value).empty(); }
  static const std::string& text_of(const nlohmann::json& value) { return value.get_ref<const std::string&>(); }

  Question::Ending ending_of(const std::string& text) const {
    const auto begins_character = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; };
    return {.tokens = encoded(" " + text),
            .characters = std::ranges::count_if(text, begins_character),
            .bytes = std::ssize(text)};
  }

  std::vector<int32_t> encoded(const std::string& text) const {
    try {
      return tokenizer_.encode(text);
    } catch (const UserError& error) {
      throw UserError(kWhere, detail::concatenate(place_, ": ", error.sentence()));
    }
  }

  void check(bool good, std::string_view need) const {
    AXONN_CHECK(good, kWhere, place_, " is no question: ", need, "; correct the line, or remove it");
  }

  std::string place_;
  const Tokenizer& tokenizer_;
};

std::vector<Question> of_lines(const std::string& name, std::string_view text, const Tokenizer& tokenizer) {
  std::vector<Question> questions;
  for (size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    if (line.empty()) continue;
    questions.push_back(JsonLine(detail::concatenate(name, " line ", number), tokenizer).question(line));
  }
  return questions;
}

}  // namespace

std::vector<Question> read_questions(const std::filesystem::path& file, const Tokenizer* tokenizer) {
  const std::string bytes = disk::read_text(file), name = shown_name(file.native());
  const bool of_llmc = is_of_llmc(bytes);
  AXONN_CHECK(of_llmc || tokenizer != nullptr, kWhere, name,
              " is text, and this model has no tokenizer that is read; give llm.c's file, which has tokens");
  std::vector<Question> questions = of_llmc ? LlmcFile(name, bytes).questions() : of_lines(name, bytes, *tokenizer);
  AXONN_CHECK(!questions.empty(), kWhere, name,
              " has no question; each line must be like {\"ctx\": \"One and\", \"endings\": [\"two\", \"three\"], "
              "\"label\": 0}");
  return questions;
}

}  // namespace axonn
