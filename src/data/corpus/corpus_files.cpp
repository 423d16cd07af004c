#include "data/corpus/corpus_files.hpp"

#include <utility>

#include <sys/stat.h>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/utf8.hpp"
#include "data/folder/content_guess.hpp"
#include "data/folder/folder_walk.hpp"
#include "data/packed/byte_source.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhere = "data.corpus";

// Of the content, unpacked.
ContentGuess guess_of(const fs::path& path) {
  std::string head(kGuessBytes, '\0');
  head.resize(open_source(path)->read(head));
  return guess_content(head);
}

// Without the ending of a packed file.
fs::path plain_name(const fs::path& path) {
  const bool packed = path.extension() == ".gz" || path.extension() == ".zst";
  return packed ? path.stem() : path.filename();
}

class Finder {
 public:
  explicit Finder(const std::vector<std::string>& inputs) {
    for (const std::string& input : inputs) {
      std::error_code ignored;
      if (fs::is_directory(input, ignored))
        add_folder(input);
      else
        add_named(input);
    }
    const std::string names = join(inputs, " ", shown_name);
    AXONN_CHECK(!found_.files.empty(), kWhere, "there is no text in ", names, " (", found_.read.to_string(),
                "); give files of text, or folders with some");
    log::info(names, ": ", found_.read.to_string());
  }

  CorpusFiles result() { return std::move(found_); }

 private:
  void add(const fs::path& path) {
    struct stat status{};
    AXONN_CHECK(::stat(path.c_str(), &status) == 0, kWhere, "cannot read ", shown_name(path.native()), ": ",
                reason_and_cure(errno));
    AXONN_CHECK(S_ISREG(status.st_mode), kWhere, shown_name(path.native()),
                " is no file and no folder; write its content to a file");
    const int64_t changed = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
    found_.files.push_back({path, status.st_size, changed, plain_name(path).extension() == ".jsonl"});
    ++found_.read.files;
    found_.read.bytes += status.st_size;
  }

  // A file that the user named.
  void add_named(const fs::path& path) {
    add(path);
    const ContentGuess guess = guess_of(path);
    const std::string name = shown_name(path.native());
    const bool stands_for_text = guess.kind == ContentClass::packed || guess.kind == ContentClass::pointer;
    AXONN_CHECK(!stands_for_text, kWhere, name, " is no text, it seems to be ", guess.name, "; ", guess.cure);
    if (guess.kind == ContentClass::empty)
      log::warn(name, " is empty");
    else if (guess.kind != ContentClass::text)
      log::warn(name, " is no plain text, it seems to be ", guess.name, ", its bytes are taken as they are",
                guess.cure.empty() ? "" : "; ", guess.cure);
  }

  void add_folder(const fs::path& directory) {
    FolderWalk walk = walk_folder(directory);
    for (FilesRead::LeftOut& one : walk.left_out) found_.read.left_out.push_back(std::move(one));
    for (const FolderFile& file : walk.files) {
      const fs::path path = directory / file.name;
      const ContentGuess guess = guess_of(path);
      if (is_text_of_folder(guess, plain_name(path)))
        add(path);
      else
        found_.read.left_out.push_back({std::string(guess.name), file.name});
    }
  }

  CorpusFiles found_;
};

}  // namespace

CorpusFiles find_corpus_files(const std::vector<std::string>& inputs) { return Finder(inputs).result(); }

}  // namespace axonn
