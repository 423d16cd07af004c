#include "axonn/tasks/text/synthetic_tokens.hpp"

#include <ATen/ops/empty.h>

#include "axonn/core/philox.hpp"
#include "axonn/network/decoder/decoder_network.hpp"

namespace axonn {

double SyntheticTokens::flops_per_sample() const {
  return model_flops_per_token(model_.config().shape) * static_cast<double>(model_.config().shape.sequence);
}

double SyntheticTokens::paper_flops_per_sample() const { return checkpointed_flops(model_.config().shape, 1); }

std::vector<at::Tensor> SyntheticTokens::inputs(int64_t first, int64_t count) {
  const int64_t sequence = model_.config().shape.sequence;
  const at::Tensor tokens = at::empty({count, sequence + 1}, at::kLong);
  int64_t* out = tokens.mutable_data_ptr<int64_t>();
  const uint32_t stream = philox_stream("verification", "tokens");
  const auto begin = static_cast<uint64_t>(first * (sequence + 1));
  for (int64_t i = 0; i < tokens.numel(); ++i)
    out[i] = philox(seed_, begin + static_cast<uint64_t>(i), 0, stream)[0] %
             static_cast<uint64_t>(model_.config().shape.vocabulary);
  return {tokens};
}

at::Tensor SyntheticTokens::loss_sum(const std::vector<at::Tensor>& inputs) {
  const int64_t sequence = model_.config().shape.sequence;
  return model_.loss_sum(inputs[0].narrow(1, 0, sequence).contiguous(), inputs[0].narrow(1, 1, sequence).contiguous());
}

MakeNetwork decoder_on_synthetic_tokens(const DecoderConfig& config, uint64_t seed) {
  return [=](Context& context) {
    auto model = std::make_shared<Decoder>(context, config);
    auto task = std::make_unique<SyntheticTokens>(*model, seed);
    return VerifiedNetwork{.model = std::move(model), .task = std::move(task)};
  };
}

}  // namespace axonn
