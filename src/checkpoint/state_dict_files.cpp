#include "axonn/checkpoint/state_dict_files.hpp"

#include <cstdio>
#include <set>
#include <system_error>
#include <utility>

#include <c10/util/accumulate.h>
#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "core/files.hpp"

namespace axonn::safetensors {
namespace {

namespace fs = std::filesystem;
constexpr const char* kWhere = "checkpoint.state_dict";

fs::path partial(const fs::path& path) { return path.string() + ".partial"; }

void rename(const fs::path& path) {
  std::error_code error;
  fs::rename(partial(path), path, error);
  if (error)
    throw BackendError(kWhere, "cannot rename " + partial(path).string() + ": " + error.message() +
                                   "; name a file where you may write");
}

}  // namespace

at::Tensor converted(const at::Tensor& tensor, at::ScalarType dtype, std::string_view name) {
  const at::Tensor result = tensor.to(dtype).contiguous();
  if (dtype == tensor.scalar_type()) return result;
  AXONN_CHECK(!result.isinf().logical_and(tensor.isfinite()).any().item<bool>(), kWhere, std::string(name),
              " has numbers that are too large for ", dtype_name(dtype), " (up to ",
              tensor.abs().nan_to_num(0, 0, 0).max().item<double>(), "); choose --dtype bf16 or fp32");
  return result;
}

StateDictReader::StateDictReader(const fs::path& path) {
  if (path.extension() == ".json")
    add_index(path);
  else
    add(path);
}

void StateDictReader::add_index(const fs::path& path) {
  const auto index = nlohmann::json::parse(disk::read_text(path), nullptr, /*allow_exceptions=*/false);
  AXONN_CHECK(index.is_object() && index.contains("weight_map") && index["weight_map"].is_object(), kWhere,
              path.string(), " has no weight_map; name a safetensors file or its index");
  std::set<std::string> names;
  for (const auto& [tensor, file] : index["weight_map"].items())
    if (file.is_string()) names.insert(file.get<std::string>());
  for (const std::string& name : names) add(path.parent_path() / name);
  for (const auto& [tensor, file] : index["weight_map"].items())
    AXONN_CHECK(places_.contains(tensor), kWhere, path.string(), ": '", tensor, "' should be in ",
                file.is_string() ? file.get<std::string>() : "a file", ", which does not hold it; copy both again");
}

void StateDictReader::add(const fs::path& path) {
  const File& file = *files_.emplace_back(std::make_unique<File>(path));
  for (const File::Entry& entry : file.entries())
    AXONN_CHECK(places_.try_emplace(entry.name, Place{&file, &entry}).second, kWhere, path.string(), ": '", entry.name,
                "' is in another file of the index too; let the index name one of them");
}

StateDictWriter::StateDictWriter(std::vector<View> tensors, fs::path file, int64_t shard_bytes)
    : tensors_(std::move(tensors)), file_(std::move(file)), indexed_(shard_bytes > 0) {
  int64_t bytes = 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const int64_t more =
        c10::multiply_integers(tensors_[i].shape) * static_cast<int64_t>(c10::elementSize(tensors_[i].dtype));
    const bool full = indexed_ && !ends_.empty() && bytes + more > shard_bytes;
    if (ends_.empty() || full) ends_.push_back(i), bytes = 0;
    bytes += more;
    total_bytes_ += more;
    ends_.back() = i + 1;
  }
  if (ends_.empty()) ends_.push_back(0);
  open();
}

StateDictWriter::~StateDictWriter() {
  out_.reset();
  std::error_code gone;
  for (size_t i = 0; i <= part_ && i < ends_.size(); ++i) fs::remove(partial(path_of(i)), gone);
}

void StateDictWriter::append(std::span<const std::byte> bytes) {
  if (tensor_ == ends_[part_]) {
    out_->finish();
    ++part_;
    open();
  }
  out_->append(bytes);
  ++tensor_;
}

void StateDictWriter::finish() {
  out_->finish();
  for (size_t i = 0; i < ends_.size(); ++i) rename(path_of(i));
  if (indexed_) {
    const fs::path index = file_.string() + ".index.json";
    disk::write_synced(partial(index), index_text());
    rename(index);
  }
  disk::sync_directory(file_.has_parent_path() ? file_.parent_path() : fs::path("."));
}

fs::path StateDictWriter::path_of(size_t part) const {
  if (!indexed_) return file_;
  char number[40];
  std::snprintf(number, sizeof number, "-%05zu-of-%05zu", part + 1, ends_.size());
  return file_.parent_path() / (file_.stem().string() + number + file_.extension().string());
}

void StateDictWriter::open() {
  const size_t begin = begin_of(part_);
  out_.emplace(partial(path_of(part_)), std::span(tensors_).subspan(begin, ends_[part_] - begin),
               Metadata{{"format", "pt"}});
}

std::string StateDictWriter::index_text() const {
  nlohmann::ordered_json index;
  index["metadata"]["total_size"] = total_bytes_;
  for (size_t part = 0; part < ends_.size(); ++part)
    for (size_t i = begin_of(part); i < ends_[part]; ++i)
      index["weight_map"][tensors_[i].name] = path_of(part).filename().string();
  return index.dump(2) + "\n";
}

}  // namespace axonn::safetensors
