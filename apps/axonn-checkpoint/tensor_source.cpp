#include "tensor_source.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <axonn/checkpoint/checkpoint.hpp>
#include <axonn/checkpoint/state_dict_files.hpp>
#include <axonn/core/error.hpp>
#include <axonn/core/join.hpp>

namespace {

constexpr const char* kWhere = "axonn_checkpoint";

std::vector<SourceTensor> tensors_of_state_dict(const std::filesystem::path& path) {
  const auto files = std::make_shared<axonn::safetensors::StateDictReader>(path);
  std::vector<SourceTensor> tensors;
  for (const auto& [name, place] : files->places())
    tensors.push_back(
        {.name = name, .dtype = place.entry->dtype, .shape = place.entry->shape, .read = [files, stored = place] {
           const at::Tensor whole = at::empty(stored.entry->shape, stored.entry->dtype);
           stored.file->read(*stored.entry, {static_cast<std::byte*>(whole.mutable_data_ptr()), whole.nbytes()});
           return whole;
         }});
  return tensors;
}

// A file that the manifest beside it names holds what one rank had, and is checked by the manifest.
void check_no_part_of_checkpoint(const std::filesystem::path& file) {
  const std::filesystem::path real = std::filesystem::canonical(file), folder = real.parent_path();
  std::ifstream manifest(folder / "manifest.json");
  const std::string text{std::istreambuf_iterator<char>(manifest), {}};
  AXONN_CHECK(text.find('"' + real.filename().string() + '"') == std::string::npos, kWhere, file.string(),
              " is a part of the checkpoint ", folder.filename().string(), ", which one rank wrote; name the folder ",
              folder.string());
}

std::vector<SourceTensor> tensors_of_checkpoint(const std::filesystem::path& path, const std::string& group) {
  const auto checkpoint = std::make_shared<axonn::CheckpointReader>(path);
  const std::string prefix = group.empty() ? "" : group + "/";
  std::set<std::string> groups;
  std::vector<SourceTensor> tensors;
  for (const auto& stored : checkpoint->tensors()) {
    groups.insert(stored.name.substr(0, stored.name.find('/')));
    if (!stored.name.starts_with(prefix)) continue;
    tensors.push_back({.name = stored.name.substr(prefix.size()),
                       .dtype = stored.dtype,
                       .shape = stored.spec.global_shape(),
                       .read = [checkpoint, &stored] { return checkpoint->read_whole(stored); }});
  }
  AXONN_CHECK(!tensors.empty(), kWhere, checkpoint->directory().string(), " has no tensors of group '", group,
              "'; its groups are ", axonn::join(groups, ", "));
  return tensors;
}

}  // namespace

int64_t SourceTensor::numel() const { return c10::multiply_integers(shape); }
int64_t SourceTensor::bytes() const { return numel() * static_cast<int64_t>(c10::elementSize(dtype)); }

std::string SourceTensor::shape_text() const {
  std::ostringstream text;
  text << c10::IntArrayRef(shape);
  return text.str();
}

bool is_state_dict(const std::filesystem::path& path) { return !std::filesystem::is_directory(path); }

std::vector<SourceTensor> tensors_of(const std::filesystem::path& path, const std::string& group) {
  AXONN_CHECK(std::filesystem::exists(path), kWhere, "there is no ", path.string(),
              "; name a run's directory, a checkpoint such as step-000500 in it, a safetensors file, or its index");
  if (!is_state_dict(path)) return tensors_of_checkpoint(path, group);
  AXONN_CHECK(group.empty(), kWhere, path.string(), " is a file without groups; leave --group out");
  check_no_part_of_checkpoint(path);
  return tensors_of_state_dict(path);
}
