#include "layers/ops/attention/tiled_attention.hpp"

#include <utility>

#include <ATen/ops/empty.h>
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
    attention->attend(tokens_of(heads[0], first_), tokens_of(heads[1], 0), both_of(heads));
    return attention->end();
  }

  Gradients attend_backward(const Heads& heads, const AttentionByBlocks::Result& result,
                            const Tensor& grad_output) override {
    const auto attention = attention_tiles(heads[0], heads[1].size(2), rules());
    attention->begin_backward(result, grad_output);
    const Tensor both = both_of(heads), sums = at::zeros(both.sizes(), both.options());
    attention->attend_backward(tokens_of(heads[0], first_), tokens_of(heads[1], 0), both, sums);
    return {.queries = attention->grad_queries(), .keys_values = sums};
  }

  static std::vector<TokenRun> tokens_of(const Tensor& some, int64_t place) { return {{{0, some.size(1)}, place}}; }
  static Tensor both_of(const Heads& heads) {
    const Tensor& keys = heads[1];
    const Tensor both = at::empty(sizes_of_both(keys), keys.options().dtype(wide_type(keys)));
    put_both(both, keys, heads[2]);
    return both;
  }

  int64_t first_;
};

}  // namespace

std::unique_ptr<TensorOperation> tiled_attention(Context& context, AttentionTerms terms, int64_t first,
                                                 int64_t sequence) {
  return std::make_unique<TiledAttention>(context, std::move(terms), first, sequence);
}

}  // namespace axonn
