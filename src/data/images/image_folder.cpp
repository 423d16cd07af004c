#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#define XXH_INLINE_ALL  // all of it is in its header
#include <xxhash.h>

#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/utf8.hpp"
#include "axonn/data/images/image_data.hpp"
#include "axonn/data/images/image_file.hpp"
#include "data/folder/folder_walk.hpp"
#include "data/images/centre_square.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhere = "data.image_folder";
constexpr size_t kNamedFaults = 3;

struct ImageEntry {
  std::string name;  // relative to the folder
  int64_t bytes = 0;
  int64_t class_number = 0;
};

struct Images {
  std::vector<ImageEntry> entries;  // sorted by name
  FilesRead read;
  size_t skipped = 0;    // bad files
  uint64_t content = 0;  // hash of what check_image_file() has seen
};

class ImageFolder : public ImageSource {
 public:
  ImageFolder(std::string directory, int64_t size, std::vector<std::string> classes, Images images)
      : directory_(std::move(directory)), size_(size), classes_(std::move(classes)), images_(std::move(images)) {}

  int64_t count() const override { return std::ssize(images_.entries); }
  int64_t size() const override { return size_; }
  std::vector<std::string> classes() const override { return classes_; }

  std::string description() const override {
    std::string text = detail::concatenate(shown_name(directory_), ": ", count(), " images of ", size_, " x ", size_);
    if (!classes_.empty()) text += detail::concatenate(" in ", classes_.size(), " classes");
    if (images_.skipped > 0) text += detail::concatenate(" (", images_.skipped, " bad files skipped)");
    return text;
  }

  uint64_t fingerprint() const override {
    auto hash = static_cast<uint64_t>(size_);
    for (const ImageEntry& entry : images_.entries) {
      hash = XXH64(entry.name.data(), entry.name.size(), hash);
      hash = XXH64(&entry.bytes, sizeof entry.bytes, hash);
    }
    return hash;
  }

  uint64_t content() const override { return images_.content; }
  FilesRead files() const override { return images_.read; }

  int64_t read(int64_t index, std::span<uint8_t> pixels) const override {
    const ImageEntry& entry = images_.entries[static_cast<size_t>(index)];
    const std::string file = (fs::path(directory_) / entry.name).string();
    const Image image = decode(file);
    if (!image.doubt.empty()) say_doubt(index, file, image.doubt);
    centre_square(image, size_, pixels);
    return entry.class_number;
  }

 private:
  // It was whole at both ends when the run began.
  Image decode(const std::string& file) const {
    try {
      return read_image(file, size_);
    } catch (const UserError& error) {
      throw UserError(error.where(), error.sentence() + "; copy the file again and resume the run");
    }
  }

  // Once, from whichever rank reads the file.
  void say_doubt(int64_t index, const std::string& file, const std::string& doubt) const {
    const std::lock_guard lock(mutex_);
    if (doubted_.insert(index).second)
      log::error(file, " may be damaged: ", doubt,
                 "; the run goes on with what it decodes to; look at it, and copy it again if it is");
  }

  std::string directory_;
  int64_t size_;
  std::vector<std::string> classes_;
  Images images_;
  mutable std::mutex mutex_;
  mutable std::set<int64_t> doubted_;
};

bool has_image_name(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return std::ranges::count(std::array{".png", ".jpg", ".jpeg"}, extension) > 0;
}

Images find_images(const fs::path& directory) {
  FolderWalk walk = walk_folder(directory);
  Images images{.entries = {}, .read = {.files = 0, .bytes = 0, .left_out = std::move(walk.left_out)}};
  for (FolderFile& file : walk.files) {
    if (has_image_name(file.name))
      images.entries.push_back({std::move(file.name), file.bytes, 0});
    else
      images.read.left_out.push_back({"not .png, .jpg or .jpeg", std::move(file.name)});
  }
  for (const std::string& folder : walk.folders) {
    const auto in = [&](const ImageEntry& entry) { return entry.name.starts_with(folder + "/"); };
    if (std::ranges::none_of(images.entries, in)) images.read.left_out.push_back({"folder without images", folder});
  }
  std::ranges::sort(images.read.left_out, {}, &FilesRead::LeftOut::name);
  const std::string left_out = images.read.left_out_text();
  AXONN_CHECK(!images.entries.empty(), kWhere, directory.string(), " holds no .png, .jpg or .jpeg files",
              left_out.empty() ? "" : " (" + left_out + ")");
  return images;
}

// Returns the names of the first-level folders, sorted, and sets the class of each entry. Empty if
// the files lie directly in the directory.
std::vector<std::string> sort_into_classes(const std::string& directory, std::vector<ImageEntry>& entries) {
  const auto folder_of = [](const ImageEntry& entry) {
    return entry.name.substr(0, std::max<size_t>(entry.name.find('/') + 1, 1) - 1);
  };
  std::vector<std::string> classes;
  for (const ImageEntry& entry : entries) classes.push_back(folder_of(entry));
  std::ranges::sort(classes);
  classes.erase(std::ranges::unique(classes).begin(), classes.end());
  if (classes.front().empty()) {
    AXONN_CHECK(classes.size() == 1, kWhere, directory, " holds images beside the folder '", classes.back(),
                "'; folders are classes, so give each class one and leave no image outside");
    return {};
  }
  for (ImageEntry& entry : entries)
    entry.class_number = std::ranges::lower_bound(classes, folder_of(entry)) - classes.begin();
  return classes;
}

// Removes bad files from `images`, and hashes the others.
void skip_bad(const fs::path& directory, Images& images) {
  const size_t all = images.entries.size();
  std::string named;
  std::erase_if(images.entries, [&](const ImageEntry& entry) {
    try {
      const uint64_t hash = check_image_file((directory / entry.name).string());
      images.content = XXH64(&hash, sizeof hash, images.content);
      ++images.read.files;
      images.read.bytes += entry.bytes;
      return false;
    } catch (const UserError& error) {
      if (++images.skipped <= kNamedFaults) named += (named.empty() ? "" : "; ") + error.sentence();
      return true;
    }
  });
  const size_t bad = images.skipped;
  if (bad > kNamedFaults) named += detail::concatenate("; and ", bad - kNamedFaults, " more");
  AXONN_CHECK(bad * 100 <= all, kWhere, directory.string(), ": ", bad, " of ", all,
              " image files are bad, at most 1% are skipped: ", named);
  if (bad > 0) log::warn(directory.string(), ": skipping ", bad, " of ", all, " image files: ", named);
}

}  // namespace

std::unique_ptr<ImageSource> load_image_folder(const std::string& directory, int64_t size) {
  AXONN_CHECK(size > 0, kWhere, "images cannot be of ", size, " x ", size, " pixels");
  AXONN_CHECK(!directory.empty(), kWhere, "--data is empty: give a directory");
  std::error_code ignored;
  AXONN_CHECK(fs::is_directory(directory, ignored), kWhere, directory, " is no directory");
  Images images = find_images(directory);
  auto classes = sort_into_classes(directory, images.entries);
  skip_bad(directory, images);
  log::info(shown_name(directory), ": ", images.read.to_string());
  return std::make_unique<ImageFolder>(directory, size, std::move(classes), std::move(images));
}

}  // namespace axonn
