#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/hugging_face/tensor_names.hpp"
#include "axonn/layers/whole_tensor.hpp"
#include "axonn/model/hugging_face/write_model.hpp"

namespace axonn {
namespace {

// Whether a block's product has a low-rank one beside it, and into which rows both are divided.
std::vector<int64_t> adapted_rows(const DecoderConfig& config, const std::string& layer) {
  const DecoderShape& shape = config.shape;
  const int64_t keys = shape.keys() * shape.features_of_head();
  if (layer.ends_with(".attn.qkv") && config.adapts_qkv()) return {shape.attended(), keys, keys};
  if (layer.ends_with(".attn.proj") && config.adapts_projection()) return {shape.hidden};
  if (layer.ends_with(".mlp.proj") && config.adapts_mlp()) return {shape.hidden};
  if (layer.ends_with(".mlp.fc") && config.adapts_mlp())
    return std::vector<int64_t>(static_cast<size_t>(shape.halves()), shape.mlp());
  return {};
}

}  // namespace

at::Tensor merged_weight(const DecoderConfig& config, const std::string& name,
                         const std::function<at::Tensor(const std::string&)>& read) {
  constexpr std::string_view kWeight = ".weight";
  const at::Tensor weight = read(name);
  const std::string layer = name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : "";
  const std::vector<int64_t> rows = adapted_rows(config, layer);
  if (rows.empty()) return weight;
  const at::NoGradGuard no_grad;
  const at::Tensor a = read(layer + ".lora_a"), b = read(layer + ".lora_b"), merged = weight.clone();
  int64_t row = 0, first = 0;
  for (const int64_t size : rows) {
    merged.narrow(0, row, size)
        .addmm_(b.narrow(0, row, size), a.narrow(0, first, config.low_rank.rank), 1, config.low_rank.scale());
    row += size;
    first += config.low_rank.rank;
  }
  return merged;
}

void save_model(Context& context, const Parameters& parameters, const DecoderConfig& config,
                const std::filesystem::path& directory, const WriteModelOptions& options) {
  const bool writes = context.at() == Coordinate{};
  // The ranks of the first replica gather each tensor, in the order in which rank 0 writes them.
  const std::vector<DecoderTensor> tensors = tensor_names(config.shape, config.shape.positions != 0 ? "gpt2" : "llama");
  size_t gathered = 0;
  const auto next = [&](const std::string& name) {
    ++gathered;
    return merged_weight(config, name,
                         [&](const std::string& part) { return whole_weight(context, parameters[part]).cpu(); });
  };
  std::exception_ptr failed;
  if (writes) {
    try {
      write_model(directory, config.shape, next, options);
    } catch (...) {
      failed = std::current_exception();
    }
  }
  // The others, and rank 0 after an error, so that nobody waits.
  if (context.at().data == 0)
    while (gathered < tensors.size()) next(tensors[gathered].name);
  all_ranks_or_none(context.communicators().on_cpu({Axis::x, Axis::y, Axis::z, Axis::data}), [&] {
    if (failed) std::rethrow_exception(failed);
  });
}

}  // namespace axonn
