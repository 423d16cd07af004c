#include "axonn/tasks/text/text_cache.hpp"

#include <functional>
#include <random>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/comm/differing_ranks.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/host_name.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/text.hpp"
#include "axonn/core/utf8.hpp"
#include "core/cores.hpp"
#include "core/files.hpp"
#include "data/text/text_encoding.hpp"
#include "tasks/text/cached_tokens.hpp"
#include "tasks/text/work_on_all.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using Progress = TextEncoding::Progress;

constexpr std::string_view kPartial = ".partial";
constexpr const char* kBegun = "begun";

// A hash of all that the tokens and their files follow from.
std::string key_of(const TextFiles& texts, const Tokenizer& tokenizer, DocumentEnds ends) {
  constexpr int kFormat = 1;
  return disk::hex(disk::xxh64_of(detail::concatenate(kFormat, ' ', disk::hex(texts.hash()), ' ',
                                                      ends == DocumentEnds::tokens, ' ', tokenizer.to_json())));
}

// Folders of tokens, whole ones and those of jobs that did not complete them. Nothing else.
std::vector<fs::path> folders_in(const fs::path& cache) {
  const auto is_key = [](std::string_view name) {
    return name.size() == disk::hex(0).size() && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  };
  std::vector<fs::path> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(cache, none)) {
    const std::string name = entry.path().filename().string();
    const bool partial = name.ends_with(kPartial);
    if (is_key(partial ? std::string_view(name).substr(0, name.find('.')) : name)) found.push_back(entry.path());
  }
  return found;
}

// A folder that nothing uses and that stays only takes room.
void try_to_remove(const fs::path& folder) {
  std::error_code refused;
  fs::remove_all(folder, refused);
  if (refused)
    log::warn("cannot remove ", shown_name(folder.native()), ", which nothing uses: ", reason_and_cure(refused));
}

std::string bytes_text(int64_t bytes) { return with_unit(static_cast<double>(bytes)) + "B"; }

// On rank 0, while all wait: `work` reads all tokens of a text in the cache.
void check_on_rank_0(Communicator& everyone, const TextFiles& texts, const std::function<void(Progress&)>& work) {
  work_on_all(
      everyone,
      [&](Progress& progress) {
        if (everyone.rank() == 0) work(progress);
      },
      [&](int64_t bytes) {
        return detail::concatenate(texts.name(), ": ", bytes_text(bytes), " of its tokens are checked");
      });
}

}  // namespace

// Makes the tokens of a text in a new folder. All functions are collective.
class TextCache::Making {
 public:
  Making(Environment& environment, fs::path folder, const TextFiles& texts, const TextEncoding& encoding)
      : environment_(environment), folder_(std::move(folder)), texts_(texts), encoding_(encoding) {}

  // Returns the summary.
  std::string run() {
    begin();
    const int64_t mine = write();
    const at::Tensor here = at::empty({1}, at::kLong).fill_(mine), all = at::empty({everyone().size()}, at::kLong);
    everyone().all_gather(here, all).wait();
    const auto* const tokens = all.const_data_ptr<int64_t>();
    std::string summary;
    check_on_rank_0(everyone(), texts_, [&](Progress& progress) {
      summary = write_summary(folder_, {tokens, tokens + everyone().size()}, progress);
      fs::remove(folder_ / kBegun);
    });
    return broadcast_text(everyone(), summary, 0);
  }

 private:
  Communicator& everyone() const { return environment_.world(); }
  bool leads() const { return environment_.rank() == 0; }

  void begin() {
    all_ranks_or_none(everyone(), [&] {
      if (!leads()) return;
      fs::create_directories(folder_);
      disk::write_synced(folder_ / kBegun, "");
    });
    bool seen = true;
    try {
      const disk::OpenFile begun(folder_ / kBegun);
    } catch (const UserError&) {
      seen = false;
    }
    const std::vector<int> blind = ranks_where(everyone(), !seen);
    if (blind.empty()) return;
    const std::string host = broadcast_text(everyone(), host_name(), blind.front());
    throw UserError("tasks.text_cache",
                    detail::concatenate(ranks_text(blind), ", the first on host ", host, ", cannot see ",
                                        shown_name(folder_.native()), ", which rank 0 on host ",
                                        broadcast_text(everyone(), host_name(), 0),
                                        " has made for the tokens of the text; let --out name a folder that all hosts "
                                        "see, or make a file of tokens with gpt tokenize and copy it to each host"));
  }

  // The number of tokens of this rank's shard; negative if it has none.
  int64_t write() {
    const std::span<const TextPart> share = encoding_.share(environment_.rank(), environment_.ranks());
    const int threads = cores_of_rank(environment_.local_ranks());
    int64_t tokens = -1;
    work_on_all(
        everyone(),
        [&](Progress& progress) {
          if (share.empty()) return;
          const fs::path shard = shard_of_rank(folder_, environment_.rank());
          tokens = encoding_.write(share, shard, threads, progress).tokens;
        },
        [&](int64_t bytes) {
          return detail::concatenate(texts_.name(), ": ", bytes_text(bytes), " of ", bytes_text(texts_.bytes()),
                                     " have become tokens");
        });
    return tokens;
  }

  Environment& environment_;
  fs::path folder_;
  const TextFiles& texts_;
  const TextEncoding& encoding_;
};

TextCache::TextCache(Environment& environment, const fs::path& run)
    : environment_(environment), directory_(run / "tokens") {
  all_ranks_or_none(environment_.world(), [&] {
    if (!leads()) return;
    for (const fs::path& folder : folders_in(directory_))
      if (folder.extension() == kPartial) try_to_remove(folder);
  });
}

TextCache::~TextCache() {
  if (!leads()) return;
  std::error_code ignored;
  for (const auto& [key, place] : places_)
    if (place.filename() != key) fs::remove_all(place, ignored);
  fs::remove(directory_, ignored);  // only if it is empty
}

TokenSource TextCache::tokens_of(const TextFiles& texts, const Tokenizer& tokenizer, DocumentEnds ends) {
  Communicator& everyone = environment_.world();
  const std::string key = key_of(texts, tokenizer, ends);
  fs::path& place = places_.try_emplace(key, directory_ / key).first->second;
  std::string summary;
  check_on_rank_0(everyone, texts, [&](Progress& progress) { summary = summary_in(place, progress); });
  summary = broadcast_text(everyone, summary, 0);
  if (summary.empty()) {
    // No other job has this name: ranks see the folder of this one or none.
    const std::string number = broadcast_text(everyone, std::to_string(std::random_device{}()), 0);
    place = directory_ / detail::concatenate(key, '.', number, kPartial);
    const TextEncoding encoding(texts, tokenizer, ends);
    summary = Making(environment_, place, texts, encoding).run();
  }
  CachedTokens found;
  all_ranks_or_none(everyone, [&] { found = open_tokens(place, summary); });
  return TokenSource(texts.name(), std::move(found.shards), tokenizer.vocabulary_size(), found.hash);
}

void TextCache::keep() {
  all_ranks_or_none(environment_.world(), [&] {
    if (!leads() || !fs::exists(directory_)) return;
    for (const auto& [key, place] : places_) {
      const fs::path whole = directory_ / key;
      if (place == whole) continue;
      fs::remove_all(whole);
      fs::rename(place, whole);
    }
    for (const fs::path& folder : folders_in(directory_))
      if (!places_.contains(folder.filename().string())) try_to_remove(folder);
    disk::sync_directory(directory_);
  });
  for (auto& [key, place] : places_) place = directory_ / key;
}

}  // namespace axonn
