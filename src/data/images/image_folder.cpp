#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>
#include <utility>

#define XXH_INLINE_ALL  // all of it is in its header
#include <xxhash.h>

#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "axonn/data/images/image_data.hpp"
#include "axonn/data/images/image_file.hpp"
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

class ImageFolder : public ImageSource {
 public:
  ImageFolder(std::string directory, int64_t size, std::vector<std::string> classes, std::vector<ImageEntry> entries,
              size_t skipped)
      : directory_(std::move(directory)),
        size_(size),
        classes_(std::move(classes)),
        entries_(std::move(entries)),
        skipped_(skipped) {}

  int64_t count() const override { return std::ssize(entries_); }
  int64_t size() const override { return size_; }
  std::vector<std::string> classes() const override { return classes_; }

  std::string description() const override {
    std::string text = detail::concatenate(directory_, ": ", count(), " images of ", size_, " x ", size_);
    if (!classes_.empty()) text += detail::concatenate(" in ", classes_.size(), " classes");
    if (skipped_ > 0) text += detail::concatenate(" (", skipped_, " bad files skipped)");
    return text;
  }

  uint64_t fingerprint() const override {
    auto hash = static_cast<uint64_t>(size_);
    for (const ImageEntry& entry : entries_) {
      hash = XXH64(entry.name.data(), entry.name.size(), hash);
      hash = XXH64(&entry.bytes, sizeof entry.bytes, hash);
    }
    return hash;
  }

  int64_t read(int64_t index, std::span<uint8_t> pixels) const override {
    const ImageEntry& entry = entries_[static_cast<size_t>(index)];
    centre_square(read_image((fs::path(directory_) / entry.name).string(), size_), size_, pixels);
    return entry.class_number;
  }

 private:
  std::string directory_;
  int64_t size_;
  std::vector<std::string> classes_;
  std::vector<ImageEntry> entries_;
  size_t skipped_;
};

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

bool has_image_name(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return std::ranges::count(std::array{".png", ".jpg", ".jpeg"}, extension) > 0;
}

std::vector<ImageEntry> files_under(const fs::path& directory) {
  std::vector<ImageEntry> found;
  std::error_code error;
  auto entry = fs::recursive_directory_iterator(directory, fs::directory_options::follow_directory_symlink, error);
  for (; !error && entry != fs::end(entry); entry.increment(error)) {
    if (is_hidden(entry->path())) {
      entry.disable_recursion_pending();
    } else if (has_image_name(entry->path()) && entry->is_regular_file()) {
      found.push_back(
          {entry->path().lexically_relative(directory).string(), static_cast<int64_t>(entry->file_size()), 0});
    }
  }
  AXONN_CHECK(!error, kWhere, "cannot read the directory ", directory.string(), ": ", error.message());
  AXONN_CHECK(!found.empty(), kWhere, directory.string(), " holds no .png, .jpg or .jpeg files");
  std::ranges::sort(found, {}, &ImageEntry::name);
  return found;
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

std::optional<std::string> fault_of(const fs::path& file) {
  try {
    check_image_file(file.string());
    return std::nullopt;
  } catch (const UserError& error) {
    return error.sentence();
  }
}

// Removes bad files from `entries`. Returns their number.
size_t skip_bad(const fs::path& directory, std::vector<ImageEntry>& entries) {
  const size_t all = entries.size();
  std::string named;
  size_t bad = 0;
  std::erase_if(entries, [&](const ImageEntry& entry) {
    const auto fault = fault_of(directory / entry.name);
    if (fault && ++bad <= kNamedFaults) named += (named.empty() ? "" : "; ") + *fault;
    return fault.has_value();
  });
  if (bad > kNamedFaults) named += detail::concatenate("; and ", bad - kNamedFaults, " more");
  AXONN_CHECK(bad * 100 <= all, kWhere, directory.string(), ": ", bad, " of ", all,
              " image files are bad, at most 1% are skipped: ", named);
  if (bad > 0) log::warn(directory.string(), ": skipping ", bad, " of ", all, " image files: ", named);
  return bad;
}

}  // namespace

std::unique_ptr<ImageSource> load_image_folder(const std::string& directory, int64_t size) {
  AXONN_CHECK(size > 0, kWhere, "images cannot be of ", size, " x ", size, " pixels");
  AXONN_CHECK(!directory.empty(), kWhere, "--data is empty: give a directory");
  AXONN_CHECK(fs::is_directory(directory), kWhere, directory, " is no directory");
  auto entries = files_under(directory);
  auto classes = sort_into_classes(directory, entries);
  const size_t skipped = skip_bad(directory, entries);
  return std::make_unique<ImageFolder>(directory, size, std::move(classes), std::move(entries), skipped);
}

}  // namespace axonn
