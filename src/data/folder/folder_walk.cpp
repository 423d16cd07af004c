#include "data/folder/folder_walk.hpp"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/core/sentence.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;
using Identity = std::pair<dev_t, ino_t>;

constexpr const char* kWhere = "data.folder";

Names names_in(const fs::path& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), &::closedir);
  Names names;
  errno = stream ? 0 : errno;
  while (stream) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  AXONN_CHECK(errno == 0, kWhere, "cannot read the directory ", directory.string(), ": ", reason_and_cure(errno));
  std::ranges::sort(names);
  return names;
}

bool is_number(std::string_view text) { return text.find_first_not_of("0123456789") == std::string_view::npos; }

bool is_checkpoint_name(std::string_view name) {
  constexpr std::string_view kStep = "step-";
  return name.starts_with(kStep) && name.size() >= kStep.size() + 6 && is_number(name.substr(kStep.size()));
}

bool is_lock_name(std::string_view name) {
  constexpr std::string_view kJob = "job-", kLock = ".lock";
  return name.starts_with(kJob) && name.ends_with(kLock) && name.size() > kJob.size() + kLock.size() &&
         is_number(name.substr(kJob.size(), name.size() - kJob.size() - kLock.size()));
}

bool is_shard_name(std::string_view name) { return name.starts_with("x") && name.ends_with(".safetensors"); }

// Names of what a run, or a checkpoint, writes into its folder.
bool is_of_a_run(std::string_view name) {
  for (const std::string_view file :
       {"metrics.jsonl", "status.json", "starts.jsonl", "config.toml", "environment.json"})
    if (name.starts_with(file)) return true;
  for (const std::string_view whole : {"samples", "tb", "flight", "manifest.json", "origin", "tokens"})
    if (name == whole) return true;
  return is_lock_name(name) || is_checkpoint_name(name) || is_shard_name(name);
}

bool is_run(const fs::path& directory, const Names& names) {
  const auto has = [&](std::string_view name) { return std::ranges::binary_search(names, name); };
  if (has("manifest.json") && std::ranges::any_of(names, is_shard_name)) return true;  // a checkpoint
  if (has("metrics.jsonl") && (has("status.json") || has("starts.jsonl"))) return true;
  return std::ranges::any_of(names, [&](const std::string& name) {
    std::error_code ignored;
    return is_lock_name(name) || (is_checkpoint_name(name) && fs::exists(directory / name / "manifest.json", ignored));
  });
}

std::optional<struct stat> status_of(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

Identity identity_of(const struct stat& status) { return {status.st_dev, status.st_ino}; }

std::string_view special_kind(mode_t mode) {
  return S_ISFIFO(mode) ? "pipe" : S_ISSOCK(mode) ? "socket" : S_ISCHR(mode) || S_ISBLK(mode) ? "device" : "no file";
}

// Reads what is really below the folder first, then what links lead to, in the order of their
// names, so that a link never takes the place of what it leads to.
class Walk {
 public:
  explicit Walk(fs::path directory) : directory_(std::move(directory)) {}

  FolderWalk run() {
    std::error_code error;
    const fs::path real = fs::canonical(directory_, error);
    AXONN_CHECK(!error, kWhere, "cannot read the directory ", directory_.string(), ": ", reason_and_cure(error));
    for (fs::path above = real; above.has_relative_path(); above = above.parent_path())
      if (const auto status = status_of(above.parent_path())) above_.insert(identity_of(*status));
    if (const auto status = status_of(real)) seen_.insert(identity_of(*status));
    enter("");
    while (!links_.empty()) {
      Names links = std::exchange(links_, {});
      std::ranges::sort(links);
      for (const std::string& link : links) follow(link);
    }
    std::ranges::sort(found_.files, {}, &FolderFile::name);
    std::ranges::sort(found_.folders);
    std::ranges::sort(found_.left_out, {}, &FilesRead::LeftOut::name);
    return std::move(found_);
  }

 private:
  void leave_out(std::string_view reason, const std::string& name) {
    found_.left_out.push_back({std::string(reason), name});
  }

  // `folder` is relative to directory_: "" or "a/b".
  void enter(const std::string& folder) {
    const bool root = folder.empty();
    const fs::path path = root ? directory_ : directory_ / folder;
    const Names names = names_in(path);
    const bool run = is_run(path, names);
    if (run && !root) return leave_out("run of axonn", folder);
    if (!root && folder.find('/') == std::string::npos) found_.folders.push_back(folder);
    for (const std::string& each : names) {
      const std::string name = root ? each : folder + "/" + each;
      struct stat status{};
      if (each.starts_with('.'))
        leave_out("hidden", name);
      else if (run && is_of_a_run(each))
        leave_out("run of axonn", name);
      else if (::lstat((directory_ / name).c_str(), &status) != 0)
        AXONN_CHECK(errno == ENOENT, kWhere, "cannot read ", (directory_ / name).string(), ": ",
                    reason_and_cure(errno));
      else if (S_ISLNK(status.st_mode))
        links_.push_back(name);
      else
        take(name, status);
    }
  }

  void follow(const std::string& link) {
    const auto status = status_of(directory_ / link);
    if (!status) {
      const bool none = errno == ENOENT || errno == ELOOP || errno == ENOTDIR;
      AXONN_CHECK(none, kWhere, "cannot follow the link ", (directory_ / link).string(), ": ", reason_and_cure(errno));
      return leave_out(errno == ELOOP ? "link to itself" : "link to nothing", link);
    }
    if (above_.contains(identity_of(*status))) return leave_out("link to a folder above", link);
    if (seen_.contains(identity_of(*status))) return leave_out("link to what is read already", link);
    take(link, *status);
  }

  void take(const std::string& name, const struct stat& status) {
    if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) seen_.insert(identity_of(status));
    if (S_ISREG(status.st_mode)) {
      found_.files.push_back({name, status.st_size});
    } else if (S_ISDIR(status.st_mode)) {
      enter(name);
    } else {
      leave_out(special_kind(status.st_mode), name);
    }
  }

  const fs::path directory_;
  FolderWalk found_;
  Names links_;
  std::set<Identity> seen_, above_;
};

}  // namespace

FolderWalk walk_folder(const fs::path& directory) { return Walk(directory).run(); }

}  // namespace axonn
