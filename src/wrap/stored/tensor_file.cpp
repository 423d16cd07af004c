#include "wrap/stored/tensor_file.hpp"

#include <cstddef>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include "axonn/checkpoint/state_dict_files.hpp"
#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "wrap.state_dict";

// A dictionary that torch.save wrote. Nothing for other files, and for what LibTorch does not read:
// an OrderedDict, a module, the format before PyTorch 1.6.
std::optional<c10::impl::GenericDict> dictionary_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  char first[4] = {};
  if (!in.read(first, sizeof first) || std::string_view(first, 4) != "PK\3\4") return {};
  in.seekg(0);
  try {
    const c10::IValue value = torch::jit::pickle_load({std::istreambuf_iterator<char>(in), {}});
    if (value.isGenericDict()) return value.toGenericDict();
  } catch (const std::exception&) {
    // Whoever reads it as safetensors says how to convert it.
  }
  return {};
}

TensorFile::Entry entry_of(const std::filesystem::path& path, const std::string& name, const c10::IValue& value) {
  AXONN_CHECK(value.isTensor() && value.toTensor().layout() == at::kStrided, kWhere, path.string(), ": '", name,
              "' is no dense tensor; save the state dict by itself: torch.save(dict(net.state_dict()), '",
              path.filename().string(), "')");
  const at::Tensor tensor = value.toTensor();
  return {tensor.sizes().vec(), tensor.scalar_type(),
          [tensor](Range range) { return tensor.detach().reshape({-1}).narrow(0, range.begin, range.size()); }};
}

TensorFile::Entry entry_of(const safetensors::StateDictReader::Place& place) {
  return {place.entry->shape, place.entry->dtype, [place](Range range) {
            const at::Tensor part = at::empty({range.size()}, at::TensorOptions().dtype(place.entry->dtype));
            const auto width = static_cast<int64_t>(part.element_size());
            place.file->read(*place.entry, range.begin * width,
                             {static_cast<std::byte*>(part.mutable_data_ptr()), part.nbytes()});
            return part;
          }};
}

}  // namespace

TensorFile::TensorFile(const std::filesystem::path& path,
                       const std::function<std::string(const std::string&)>& rename) {
  const auto add = [&](const std::string& old_name, const auto&... where) {
    const std::string name = rename ? rename(old_name) : old_name;
    if (name.empty()) return;
    AXONN_CHECK(entries_.try_emplace(name, entry_of(where...)).second, kWhere, path.string(), ": '", old_name,
                "' is a second tensor for '", name, "'; let .rename leave one out (\"\")");
  };
  if (const auto dictionary = dictionary_of(path)) {
    for (const auto& each : *dictionary)
      if (each.key().isString()) add(each.key().toStringRef(), path, each.key().toStringRef(), each.value());
    return;
  }
  files_ = std::make_unique<safetensors::StateDictReader>(path);
  for (const auto& [name, place] : files_->places()) add(name, place);
}

TensorFile::~TensorFile() = default;

}  // namespace axonn
