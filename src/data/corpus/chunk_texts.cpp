#include "data/corpus/chunk_texts.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "axonn/core/json/json_depth.hpp"
#include "axonn/core/text.hpp"
#include "axonn/core/utf8.hpp"
#include "data/tokenizer/unicode/code_points.hpp"

namespace axonn {
namespace {

// The text of a line of JSON, or why there is none.
struct LineText {
  std::optional<std::string> text;
  std::string problem;
};

LineText text_of_line(std::string_view line, const std::string& key) {
  nlohmann::json object;
  if (is_shallow_json(line)) object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return {.text = {}, .problem = "it must be an object of JSON"};
  const auto found = object.find(key);
  if (found == object.end()) {
    std::vector<std::string> keys;
    for (const auto& [name, value] : object.items()) keys.push_back(name);
    return {.text = {}, .problem = "it must have the key '" + printable(key) + "'" + did_you_mean(key, keys)};
  }
  if (!found->is_string()) return {.text = {}, .problem = "'" + printable(key) + "' must be a text"};
  return {.text = std::move(found->get_ref<std::string&>()), .problem = ""};
}

class Chunk {
 public:
  Chunk(const CorpusChunk& chunk, const std::vector<CorpusFile>& files, const TextRules& rules)
      : chunk_(chunk), files_(files), rules_(rules) {}

  ChunkNotes read(const std::function<void(std::string_view)>& use) {
    for (const CorpusChunk::Part& part : chunk_.parts) {
      const std::string_view bytes = std::string_view(chunk_.bytes).substr(part.begin, part.end - part.begin);
      if (part.line > 0)
        read_line(part, bytes, use);
      else
        read_whole(part, bytes, use);
    }
    return std::move(notes_);
  }

 private:
  std::string name_of(const CorpusChunk::Part& part) const { return shown_name(files_[part.file].path.native()); }

  // Calls use(text) with valid UTF-8.
  template <typename Use>
  void with_valid(std::string_view bytes, const Use& use) {
    const ReplacedText valid = replace_invalid_utf8(bytes);
    notes_.replaced += valid.replaced;
    use(valid.replaced > 0 ? std::string_view(valid.text) : bytes);
  }

  void read_whole(const CorpusChunk::Part& part, std::string_view bytes,
                  const std::function<void(std::string_view)>& use) {
    if (const size_t first = bytes.find('\0'); first != std::string_view::npos)
      warn(detail::concatenate(name_of(part), " has ", std::ranges::count(bytes, '\0'),
                               " NUL bytes, the first at byte ", first,
                               ": a part of it may be lost; they are taken as they are"));
    if (rules_.any_bytes)
      use(bytes);
    else
      with_valid(bytes, use);
  }

  void read_line(const CorpusChunk::Part& part, std::string_view bytes,
                 const std::function<void(std::string_view)>& use) {
    if (trimmed(bytes).empty()) return;
    LineText line;
    with_valid(bytes, [&](std::string_view valid) { line = text_of_line(valid, rules_.key); });
    if (line.text) return use(*line.text);
    const std::string what = detail::concatenate(name_of(part), " line ", part.line, " has no text: ", line.problem);
    AXONN_CHECK(rules_.bad_lines == BadLines::skip, "data.corpus", what,
                "; correct the line, or leave such lines out with --on-bad-line skip");
    ++notes_.skipped;
    warn(what + "; it is skipped");
  }

  void warn(std::string text) {
    if (notes_.warnings.size() < kMostWarnings) notes_.warnings.push_back(std::move(text));
  }

  const CorpusChunk& chunk_;
  const std::vector<CorpusFile>& files_;
  const TextRules& rules_;
  ChunkNotes notes_;
};

}  // namespace

ChunkNotes for_each_text(const CorpusChunk& chunk, const std::vector<CorpusFile>& files, const TextRules& rules,
                         const std::function<void(std::string_view)>& use) {
  return Chunk(chunk, files, rules).read(use);
}

}  // namespace axonn
