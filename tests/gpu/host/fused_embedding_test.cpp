// An embedding whose gradient our kernels sum on the host, against LibTorch.
#include <string>
#include <vector>

#include <ATen/ops/embedding.h>

#include "axonn/layers/embedding.hpp"
#include "layers/embedding_operation.hpp"
#include "layers/layer_fixture.hpp"

namespace axonn {
namespace {

using namespace test;

// Along X, some ranks have only padding of the five words. A rank that has all tokens has two
// chunks of each word.
TEST(FusedEmbedding, EqualsSerialOnEveryGrid) {
  for (const GridShape& grid : every_grid())
    for (const int64_t vocabulary : grid.x > 1 ? std::vector<int64_t>{5, 13} : std::vector<int64_t>{5}) {
      Context context = context_on(grid);
      const EmbeddingOptions options{.vocabulary = vocabulary, .features = 24};
      Embedding layer(context, options);
      const Parameters parameters = context.materialize(*layer, 1);
      const at::Tensor weight = whole_tensor(1, {vocabulary, 24}).requires_grad_();
      fill(context, parameters["weight"], weight);
      auto step = context.begin_step({.micro_batches = 2});
      for (const int64_t seed : {10, 20}) {
        const at::Tensor ids = (whole_tensor(seed, {16, 61}) * 1000).to(at::kLong).remainder(vocabulary),
                         grad = whole_tensor(seed + 1, {16, 61, 24});
        at::embedding(weight, ids).backward(grad);
        const at::Tensor got = record(embedding_operation(context, parameters["weight"], options,
                                                          Layout::over(options.feature_axis), /*fused=*/true),
                                      my_rows(context, ids), {&parameters["weight"]});
        got.backward(my_features(context, my_rows(context, grad), Layout::over(options.feature_axis)));
      }
      step.finish();
      expect_gradient(context, parameters["weight"], weight.grad(),
                      std::to_string(vocabulary) + " words on " + grid.to_string());
    }
}

}  // namespace
}  // namespace axonn
