#include "layers/ops/attention/tiled_attention.hpp"

#include <utility>

#include <ATen/ops/zeros.h>

#include "kernels/cpu/attention_tiles.hpp"
#include "layers/ops/attention/heads_attention.hpp"

namespace axonn {
namespace {

class TiledAttention final : public HeadsAttention {
 public:
  TiledAttention(Context& context, AttentionTerms terms, int64_t first, int64_t sequence)
      : HeadsAttention(context, std::move(terms), sequence), first_(first) {}
  std::string name() const override { return "tiled_attention"; }

 private:
  AttentionByBlocks::Result attend(const Heads& heads) override {
    const auto attention = attention_tiles(heads[0], heads[1].size(2), rules());
    attention->begin();
    attention->attend(tokens_of(heads[0], first_), tokens_of(heads[1], 0), by_key_head(heads[1], heads[2]));
    return attention->end();
  }

  Gradients attend_backward(const Heads& heads, const AttentionByBlocks::Result& result,
                            const Tensor& grad_output) override {
    const auto attention = attention_tiles(heads[0], heads[1].size(2), rules());
    attention->begin_backward(result, grad_output);
    const KeysValues seen = by_key_head(heads[1], heads[2]);
    const Tensor sums = at::zeros(sizes_of_both(seen, heads[1].size(1)), heads[1].options().dtype(wide_type(heads[1])));
    attention->attend_backward(tokens_of(heads[0], first_), tokens_of(heads[1], 0), seen, halves(sums));
    return {.queries = attention->grad_queries(), .keys_values = sums};
  }

  static std::vector<TokenRun> tokens_of(const Tensor& some, int64_t place) { return {{{0, some.size(1)}, place}}; }

  int64_t first_;
};

}  // namespace

std::unique_ptr<TensorOperation> tiled_attention(Context& context, AttentionTerms terms, int64_t first,
                                                 int64_t sequence) {
  return std::make_unique<TiledAttention>(context, std::move(terms), first, sequence);
}

}  // namespace axonn
