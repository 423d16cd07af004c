#include "axonn/model/gguf/write_gguf.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "axonn/checkpoint/state_dict_files.hpp"
#include "axonn/core/error.hpp"
#include "axonn/data/tokenizer/tokenizer.hpp"
#include "axonn/data/tokenizer/tokenizer_table.hpp"
#include "axonn/hugging_face/config_file.hpp"
#include "axonn/hugging_face/tensor_names.hpp"
#include "core/files.hpp"
#include "model/gguf/gguf_file.hpp"
#include "model/gguf/gguf_tensors.hpp"
#include "model/gguf/network_metadata.hpp"
#include "model/gguf/tokenizer_metadata.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
constexpr const char* kWhere = "model.gguf";

// With the family and the longest text of the config.json that it came from, if there is one.
GgufNetwork network_of(const DecoderShape& shape, const fs::path& original) {
  const fs::path config = original / "config.json";
  const bool known = !original.empty() && fs::exists(config);
  const std::string family = write_config(shape, "float32", known ? disk::read_text(config) : "").model_type;
  int64_t context = family == "gpt2" ? shape.learned_positions() : shape.sequence;
  if (known && family != "gpt2") {
    const HuggingFaceConfig before = read_config(config);
    if (before.model_type == family) context = std::max(context, before.shape.sequence);
  }
  return gguf_network(shape, family, context);
}

}  // namespace

int64_t write_gguf(const fs::path& file, const DecoderShape& shape,
                   const std::function<at::Tensor(const std::string&)>& read, const WriteGgufOptions& options) {
  const at::NoGradGuard no_grad;
  AXONN_CHECK(options.dtype == at::kFloat || options.dtype == at::kBFloat16 || options.dtype == at::kHalf, kWhere,
              "weights are written as fp32, bf16 or fp16, got ", c10::toString(options.dtype), "; choose one of them");
  AXONN_CHECK(!options.original.empty() && Tokenizer::is_in(options.original), kWhere,
              "a GGUF file holds the tokenizer, and this model came without its files; train --from a directory of ",
              "Hugging Face's that has tokenizer.json, or put the file into ",
              options.original.empty() ? "the run's folder origin" : options.original.string());
  const GgufNetwork network = network_of(shape, options.original);
  GgufHeader header;
  add_network(network, options.dtype, header);
  add_tokenizer(read_tokenizer_table(options.original), shape.vocabulary, header);
  const std::vector<GgufTensor> tensors =
      gguf_tensors(network, tensor_names(shape, network.architecture), options.dtype);
  const bool slower = shape.rope_factor > 1;
  if (slower) header.add_tensor("rope_freqs.weight", std::vector{shape.features_of_head() / 2}, at::kFloat);
  for (const GgufTensor& tensor : tensors) header.add_tensor(tensor.name, tensor.shape, tensor.dtype);
  GgufFile out(file, header, options.overwrite);
  if (slower) out.append(slower_rotations(shape));
  int64_t bytes = 0;
  std::string last;
  at::Tensor whole;
  for (const GgufTensor& tensor : tensors) {
    if (tensor.ours != last) {
      whole = at::Tensor();  // before the next one is read
      whole = read(last = tensor.ours);
    }
    const at::Tensor values = safetensors::converted(values_of(tensor, whole), tensor.dtype, tensor.name).contiguous();
    out.append(values);
    bytes += static_cast<int64_t>(values.nbytes());
  }
  out.finish();
  return bytes;
}

}  // namespace axonn
