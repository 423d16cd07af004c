#include <cstdio>
#include <filesystem>
#include <map>

#include <ATen/core/grad_mode.h>

#include <axonn/checkpoint/state_dict_files.hpp>
#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>

#include "checkpoint_commands.hpp"
#include "tensor_source.hpp"

namespace {

namespace fs = std::filesystem;
constexpr const char* kWhere = "axonn_checkpoint";

at::ScalarType floating_type(const std::string& name) {
  const std::map<std::string, at::ScalarType> types = {
      {"fp64", at::kDouble}, {"fp32", at::kFloat}, {"fp16", at::kHalf}, {"bf16", at::kBFloat16}};
  const auto found = types.find(name);
  AXONN_CHECK(found != types.end(), kWhere, "--dtype must be fp64, fp32, fp16 or bf16, got '", name, "'");
  return found->second;
}

void check_free(const fs::path& out, int64_t shard_bytes, bool overwrite) {
  const fs::path last = shard_bytes > 0 ? fs::path(out.string() + ".index.json") : out;
  AXONN_CHECK(out.extension() == ".safetensors", kWhere, "--out must end in .safetensors, got ", out.string());
  AXONN_CHECK(overwrite || !fs::exists(last), kWhere, last.string(), " exists; name another file, or add --overwrite");
}

}  // namespace

int export_tensors(const CheckpointOptions& options) {
  using axonn::safetensors::View;
  const at::NoGradGuard no_grad;
  const std::string& path = options.paths.front();
  const int64_t shard_bytes = axonn::parse_count(options.shard_size, "--shard-size", axonn::Suffixes::binary);
  check_free(options.out, shard_bytes, options.overwrite);
  const auto tensors = tensors_of(path, is_state_dict(path) || !options.group.empty() ? options.group : "weights");
  std::vector<View> views;
  std::map<std::string, const SourceTensor*> named;
  for (const SourceTensor& tensor : tensors) {
    const bool changes = !options.dtype.empty() && c10::isFloatingType(tensor.dtype);
    views.push_back({.name = tensor.name,
                     .dtype = changes ? floating_type(options.dtype) : tensor.dtype,
                     .shape = tensor.shape,
                     .parts = {}});
    named.emplace(tensor.name, &tensor);
  }
  axonn::safetensors::sort_for_file(views);
  axonn::safetensors::StateDictWriter out(std::move(views), options.out, shard_bytes);
  double bytes = 0;
  for (const View& view : out.tensors()) {
    const at::Tensor whole = axonn::safetensors::converted(named.at(view.name)->read(), view.dtype, view.name);
    out.append({static_cast<const std::byte*>(whole.const_data_ptr()), whole.nbytes()});
    bytes += static_cast<double>(whole.nbytes());
  }
  out.finish();
  std::printf("%s%s: %zu tensors, %s\n", options.out.c_str(), shard_bytes > 0 ? ".index.json" : "", tensors.size(),
              axonn::bytes_text(bytes).c_str());
  return 0;
}
