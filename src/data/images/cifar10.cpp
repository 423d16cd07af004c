#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#define XXH_INLINE_ALL  // all of it is in its header
#include <xxhash.h>

#include "axonn/core/error.hpp"
#include "axonn/data/images/image_data.hpp"
#include "data/folder/folder_walk.hpp"

namespace axonn {
namespace {

constexpr int64_t kSide = 32, kPlane = kSide * kSide, kRecord = 1 + 3 * kPlane;
constexpr std::array kClasses = {"airplane", "automobile", "bird",  "cat",  "deer",
                                 "dog",      "frog",       "horse", "ship", "truck"};

class Cifar10 : public ImageSource {
 public:
  explicit Cifar10(std::vector<uint8_t> records) : records_(std::move(records)) {}

  int64_t count() const override { return static_cast<int64_t>(records_.size()) / kRecord; }
  int64_t size() const override { return kSide; }
  std::vector<std::string> classes() const override { return {kClasses.begin(), kClasses.end()}; }
  uint64_t fingerprint() const override { return XXH64(records_.data(), records_.size(), 0); }
  std::string description() const override {
    return detail::concatenate("cifar10: ", count(), " images of 32 x 32 in ", kClasses.size(), " classes");
  }

  int64_t read(int64_t index, std::span<uint8_t> pixels) const override {
    const uint8_t* record = records_.data() + index * kRecord;
    for (int64_t pixel = 0; pixel < kPlane; ++pixel)
      for (int64_t channel = 0; channel < 3; ++channel)
        pixels[static_cast<size_t>(3 * pixel + channel)] = record[1 + channel * kPlane + pixel];
    return record[0];
  }

 private:
  std::vector<uint8_t> records_;
};

void append(const std::filesystem::path& file, std::vector<uint8_t>& records) {
  constexpr const char* kWhere = "data.cifar10";
  std::ifstream in(file, std::ios::binary);
  AXONN_CHECK(in.is_open(), kWhere, file.string(), " cannot be read");
  const auto length = static_cast<int64_t>(std::filesystem::file_size(file));
  AXONN_CHECK(length > 0 && length % kRecord == 0, kWhere, file.string(), " has ", length,
              " bytes, no multiple of the ", kRecord,
              " of a record: it is cut short, or not CIFAR-10's binary version");
  const size_t begin = records.size();
  records.resize(begin + static_cast<size_t>(length));
  in.read(reinterpret_cast<char*>(records.data() + begin), length);
  AXONN_CHECK(in.gcount() == length, kWhere, file.string(), " ended after ", in.gcount(), " of ", length, " bytes");
  for (size_t at = begin; at < records.size(); at += kRecord)
    AXONN_CHECK(records[at] < kClasses.size(), kWhere, file.string(), ": record ", (at - begin) / kRecord,
                " is of class ", int{records[at]}, ", CIFAR-10 has 0 to 9");
}

}  // namespace

std::unique_ptr<ImageSource> load_cifar10(const std::string& directory, bool test) {
  constexpr const char* kWhere = "data.cifar10";
  std::error_code error;
  AXONN_CHECK(std::filesystem::is_directory(directory, error), kWhere, directory, " is no directory");
  std::vector<std::filesystem::path> files;
  for (const FolderFile& file : walk_folder(directory).files)
    if (file.name.starts_with(test ? "test_batch" : "data_batch") && file.name.ends_with(".bin"))
      files.push_back(std::filesystem::path(directory) / file.name);
  AXONN_CHECK(!files.empty(), kWhere, directory, " holds no ", test ? "test_batch" : "data_batch",
              "*.bin, the files of CIFAR-10's binary version");
  std::vector<uint8_t> records;
  for (const auto& file : files) append(file, records);
  return std::make_unique<Cifar10>(std::move(records));
}

}  // namespace axonn
