#include "axonn/data/text/text_files.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/utf8.hpp"
#include "core/files.hpp"
#include "data/folder/content_guess.hpp"
#include "data/folder/folder_walk.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhere = "data.text_files";
constexpr int64_t kBlockBytes = int64_t{1} << 20;

std::ifstream opened(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  AXONN_CHECK(in, kWhere, "cannot read ", path.string(), ": ", reason_and_cure(errno));
  return in;
}

// Adds bytes [begin, end) of a file.
void append_bytes(const fs::path& path, int64_t begin, int64_t end, std::string& text) {
  std::ifstream in = opened(path);
  const size_t before = text.size();
  text.resize(before + static_cast<size_t>(end - begin));
  in.seekg(begin);
  in.read(text.data() + before, end - begin);
  AXONN_CHECK(in, kWhere, path.string(), " ended after ", begin + in.gcount(), " of ", end, " bytes");
}

int64_t size_of(const fs::path& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  AXONN_CHECK(!error, kWhere, "cannot read ", path.string(), ": ", reason_and_cure(error));
  return static_cast<int64_t>(bytes);
}

ContentGuess guess_of(const fs::path& path) {
  std::ifstream in = opened(path);
  std::string head(kGuessBytes, '\0');
  in.read(head.data(), std::ssize(head));
  AXONN_CHECK(!in.bad(), kWhere, "cannot read ", path.string(), ": ", reason_and_cure(errno));
  return guess_content(std::string_view(head).substr(0, static_cast<size_t>(in.gcount())));
}

struct Zeros {
  int64_t count = 0, first = 0;
};

// A part of a file that was never written, or was lost with a disk, is zeros.
void warn_of(const Zeros& zeros, const fs::path& path) {
  if (zeros.count == 0) return;
  log::warn(path.string(), " has ", zeros.count, " NUL bytes, the first at byte ", zeros.first,
            ": a part of it may be lost; they are trained on as they are");
}

std::string characters_of(const std::string& text) {
  const Tokenizer here = Tokenizer::chars(text);
  std::string all;
  for (int32_t token = 0; token < here.vocabulary_size(); ++token) all += here.bytes_of(token);
  return all;
}

}  // namespace

// One find().
class TextFiles::Finder {
 public:
  Finder(TokenizerKind kind, const Tokenizer* known) : kind_(kind), known_(known) {}

  TextFiles find(const std::vector<std::string>& paths) {
    AXONN_CHECK(!paths.empty(), kWhere, "no data: give files or directories with --data PATH...");
    for (const std::string& path : paths) add_path(path);
    found_.name_ = join(paths, ", ", shown_name);
    AXONN_CHECK(has_text_, kWhere, "there is no text in ", found_.name_, " (", found_.read_.to_string(), ")");
    log::info(found_.name_, ": ", found_.read_.to_string());
    found_.hash_ = hash_.digest();
    if (!found_.characters_.empty() && found_.files_.size() > 1) found_.characters_ += '\n';
    return std::move(found_);
  }

 private:
  void add_path(const std::string& path) {
    AXONN_CHECK(!path.empty(), kWhere, "--data has an empty path: give files or directories");
    std::error_code error, ignored;
    const fs::file_status status = fs::status(path, error);
    const bool found = status.type() != fs::file_type::not_found;
    AXONN_CHECK(found, kWhere, "data path ", shown_name(path),
                fs::is_symlink(path, ignored) ? " is a link to what" : "", " does not exist");
    AXONN_CHECK(!error, kWhere, "cannot read the data path ", shown_name(path), ": ", reason_and_cure(error));
    AXONN_CHECK(fs::is_regular_file(status) || fs::is_directory(status), kWhere, "data path ", shown_name(path),
                " is neither a file nor a directory");
    fs::is_directory(status) ? add_folder(path) : add_named(path);
  }

  // A file that the user named.
  void add_named(const fs::path& path) {
    const ContentGuess guess = guess_of(path);
    const bool stands_for_text = guess.kind == ContentClass::packed || guess.kind == ContentClass::pointer;
    AXONN_CHECK(!stands_for_text, kWhere, path.string(), " is no text, it seems to be ", guess.name, "; ", guess.cure);
    const Zeros zeros = add(path);
    if (guess.kind == ContentClass::empty)
      log::warn(path.string(), " is empty");
    else if (guess.kind != ContentClass::text)
      log::warn(path.string(), " is no plain text, it seems to be ", guess.name,
                ", its bytes are trained on as they are", guess.cure.empty() ? "" : "; ", guess.cure);
    else
      warn_of(zeros, path);
  }

  void add_folder(const fs::path& directory) {
    FolderWalk walk = walk_folder(directory);
    std::vector<FilesRead::LeftOut> left_out = std::move(walk.left_out);
    for (const FolderFile& file : walk.files) {
      const fs::path path = directory / file.name;
      const ContentGuess guess = guess_of(path);
      if (is_text_of_folder(guess, path))
        warn_of(add(path), path);
      else
        left_out.push_back({std::string(guess.name), file.name});
    }
    std::ranges::sort(left_out, {}, &FilesRead::LeftOut::name);
    std::ranges::move(left_out, std::back_inserter(found_.read_.left_out));
  }

  // Characters are looked at in whole files, because a block may end within one.
  Zeros add(const fs::path& path) {
    const int64_t bytes = size_of(path), begin = found_.files_.empty() ? 0 : found_.bytes() + 1;
    found_.files_.push_back({path, begin, bytes});
    ++found_.read_.files;
    found_.read_.bytes += bytes;
    hash_.update(std::as_bytes(std::span(&bytes, 1)));
    Zeros zeros;
    const int64_t block = kind_ == TokenizerKind::chars ? std::max<int64_t>(bytes, 1) : kBlockBytes;
    for (int64_t at = 0; at < bytes; at += block) {
      std::string text;
      append_bytes(path, at, std::min(bytes, at + block), text);
      look_at(text, at, zeros);
      if (kind_ == TokenizerKind::chars) add_characters(path, text);
    }
    return zeros;
  }

  void look_at(const std::string& text, int64_t at, Zeros& zeros) {
    hash_.update(std::as_bytes(std::span(text)));
    has_text_ = has_text_ || text.find_first_not_of('\n') != std::string::npos;
    const size_t first = text.find('\0');
    if (first == std::string::npos) return;
    if (zeros.count == 0) zeros.first = at + static_cast<int64_t>(first);
    zeros.count += std::ranges::count(text, '\0');
  }

  void add_characters(const fs::path& path, const std::string& text) {
    const auto bad = first_invalid_utf8(text);
    AXONN_CHECK(!bad, kWhere, path.string(), " is not UTF-8 at byte ", bad.value_or(0),
                "; --tokenizer bytes takes any data");
    if (known_ == nullptr)
      found_.characters_ += characters_of(text);
    else
      known_->encode(text);  // refuses others
  }

  TokenizerKind kind_;
  const Tokenizer* known_;
  TextFiles found_;
  disk::Hash64 hash_;
  bool has_text_ = false;
};

TextFiles TextFiles::find(const std::vector<std::string>& paths, TokenizerKind kind) {
  return Finder(kind, nullptr).find(paths);
}

TextFiles TextFiles::find(const std::vector<std::string>& paths, const Tokenizer& tokenizer) {
  return Finder(tokenizer.kind(), &tokenizer).find(paths);
}

// A line break stands before each file but the first.
std::string TextFiles::text(int64_t begin, int64_t end) const {
  AXONN_ASSERT(begin >= 0 && begin <= end && end <= bytes(), "bytes ", begin, " to ", end, " of ", bytes());
  std::string text;
  auto file = std::ranges::prev(std::ranges::upper_bound(files_, begin, {}, &File::begin));
  for (; file != files_.end() && file->begin <= end; ++file) {
    if (file->begin > begin) text += '\n';
    const int64_t from = std::max<int64_t>(begin - file->begin, 0), to = std::min(end - file->begin, file->bytes);
    if (from < to) append_bytes(file->path, from, to, text);
  }
  return text;
}

}  // namespace axonn
