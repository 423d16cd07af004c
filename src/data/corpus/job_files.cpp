#include "data/corpus/job_files.hpp"

#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "axonn/core/json/json_depth.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/utf8.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kWhere = "data.corpus";
constexpr uint64_t kMostCount = uint64_t{1} << 58;  // files of so many tokens have sizes that 63 bits hold
constexpr const char *kDescription = "job.json", *kState = "state.json", *kLock = "lock", *kTokenizer = "tokenizer";

// The results in the directory, and the endings of their later names. The summary comes last.
constexpr std::pair<const char*, const char*> kResults[] = {
    {"shard.bin", ".bin"}, {"shard.idx", ".idx"}, {kTokenizer, ".tokenizer"}, {JobFiles::kSummary, ".json"}};

std::string shown(const fs::path& path) { return shown_name(path.native()); }

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

UserError damaged(const fs::path& path) {
  return UserError(kWhere, shown(path) + " is damaged; start again with --overwrite");
}

// Whether a directory of a tokenization holds something that a further start can use.
bool is_begun(const fs::path& partial) { return is_there(partial / kState) || is_there(partial / kTokenizer); }

Json read_json(const fs::path& path) {
  const std::string text = disk::read_text(path);
  Json file;
  if (is_shallow_json(text)) file = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object()) throw damaged(path);
  return file;
}

// A key of a description as the user gave it: "text_key" as --text-key.
std::string flag_of(std::string key) {
  for (char& letter : key)
    if (letter == '_') letter = '-';
  return "--" + key;
}

}  // namespace

JobFiles::Directory::Directory(const fs::path& path) : path_(path) {
  std::error_code error;
  fs::create_directories(path_, error);
  AXONN_CHECK(!error, kWhere, "cannot make the directory ", shown(path_), ": ", reason_and_cure(error));
  lock_ = ::open((path_ / kLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  AXONN_CHECK(lock_ >= 0, kWhere, "cannot make the lock of ", shown(path_), ": ", reason_and_cure(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(lock_);
  throw UserError(kWhere, detail::concatenate("another process writes ", shown(path_),
                                              "; wait for its end, or give another --out"));
}

JobFiles::Directory::~Directory() {
  std::error_code ignored;
  if (!is_begun(path_)) fs::remove_all(path_, ignored);
  ::close(lock_);
}

JobFiles::JobFiles(const TokenizeOptions& options, const Json& description)
    : out_(options.out), partial_(fs::path(options.out) += ".partial") {
  AXONN_CHECK(out_.has_filename(), kWhere,
              "--out must be what the names of the results begin with, such as data/mine, ", "got '", shown(out_), "'");
  const bool begun = is_begun(partial_);
  AXONN_CHECK(!begun || options.resume || options.overwrite, kWhere, shown(partial_),
              " holds a tokenization that has not ended; go on with --resume, or start again with --overwrite");
  directory_.emplace(partial_);
  if (options.resume && begun)
    check_same(description);
  else
    begin(options, description);
}

void JobFiles::begin(const TokenizeOptions& options, const Json& description) const {
  for (const auto& entry : fs::directory_iterator(partial_))
    if (entry.path().filename() != kLock) fs::remove_all(entry.path());
  for (const auto& [name, suffix] : kResults) {
    AXONN_CHECK(options.overwrite || !is_there(result(suffix)), kWhere, shown(result(suffix)),
                " is there already; replace it with --overwrite, or give another --out");
  }
  write(kDescription, description.dump(1));
}

void JobFiles::check_same(const Json& description) const {
  const Json before = read_json(partial_ / kDescription);
  for (const auto& [key, value] : description.items()) {
    const Json other = before.value(key, Json());
    if (other == value || key == "files") continue;
    throw UserError(kWhere, detail::concatenate(shown(partial_), " was begun with ", flag_of(key), " ", other.dump(),
                                                ", now it is ", value.dump(),
                                                "; give the same again, or start again with --overwrite"));
  }
  const Json &was = before.value("files", Json::array()), &is = description.at("files");
  if (!was.is_array()) throw damaged(partial_ / kDescription);
  AXONN_CHECK(was.size() == is.size(), kWhere, shown(partial_), " was begun with ", was.size(),
              " files, now there are ", is.size(), "; give the same inputs, or start again with --overwrite");
  for (size_t i = 0; i < is.size(); ++i)
    AXONN_CHECK(was[i] == is[i], kWhere, shown_name(from_utf8(is[i].at("path").get<std::string>())),
                " has changed since ", shown(partial_), " was begun; start again with --overwrite");
}

std::optional<JobState> JobFiles::state() const {
  if (!is_there(partial_ / kState)) return std::nullopt;
  const Json file = read_json(partial_ / kState);
  JobState state;
  try {
    const auto get = [&](const char* key) {
      const Json& count = file.at(key);
      if (!count.is_number_unsigned() || count.get<uint64_t>() > kMostCount) throw damaged(partial_ / kState);
      return count.get<int64_t>();
    };
    state.place = {.file = static_cast<size_t>(get("file")), .offset = get("offset"), .line = get("line")};
    const auto hash = file.at("hash").get<std::string>();
    state.shard = {.documents = get("documents"), .tokens = get("tokens"), .hash = 0};
    std::from_chars(hash.data(), hash.data() + hash.size(), state.shard.hash, 16);
    state.used_bytes = get("used_bytes"), state.bytes = get("bytes"), state.empty_documents = get("empty_documents");
    state.replaced = get("replaced"), state.skipped_lines = get("skipped_lines");
    state.complete = file.at("complete").get<bool>();
  } catch (const nlohmann::json::exception&) {
    throw damaged(partial_ / kState);
  }
  return state;
}

void JobFiles::save(const JobState& state) const {
  const Json file = {{"file", state.place.file},
                     {"offset", state.place.offset},
                     {"line", state.place.line},
                     {"documents", state.shard.documents},
                     {"tokens", state.shard.tokens},
                     {"hash", disk::hex(state.shard.hash)},
                     {"used_bytes", state.used_bytes},
                     {"bytes", state.bytes},
                     {"empty_documents", state.empty_documents},
                     {"replaced", state.replaced},
                     {"skipped_lines", state.skipped_lines},
                     {"complete", state.complete}};
  write(kState, file.dump(1));
}

void JobFiles::write(const std::string& name, const std::string& text) const {
  const fs::path path = partial_ / name, next = fs::path(path) += ".next";
  disk::write_synced(next, text);
  fs::rename(next, path);
  disk::sync_directory(partial_);
}

void JobFiles::publish() const {
  // Old results of other kinds go before the first new one has its name.
  if (is_there(partial_ / kResults[0].first))
    for (const auto& [name, suffix] : kResults)
      if (!is_there(partial_ / name)) fs::remove_all(result(suffix));
  for (const auto& [name, suffix] : kResults) {
    if (!is_there(partial_ / name)) continue;
    fs::remove_all(result(suffix));
    fs::rename(partial_ / name, result(suffix));
  }
  disk::sync_directory(out_.has_parent_path() ? out_.parent_path() : fs::path("."));
  fs::remove_all(partial_);
}

fs::path JobFiles::result(const char* suffix) const { return fs::path(out_) += suffix; }

}  // namespace axonn
