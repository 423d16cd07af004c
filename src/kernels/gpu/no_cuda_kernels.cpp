// The kernels of layers in a build without CUDA.
#include <string>

#include "axonn/core/error.hpp"
#include "kernels/gpu/embedding_rows.hpp"
#include "kernels/gpu/group_norm_images.hpp"
#include "kernels/gpu/layer_norm_rows.hpp"
#include "kernels/gpu/product.hpp"
#include "kernels/gpu/gpu_code.hpp"
#include "kernels/gpu/cross_entropy_rows.hpp"
#include "kernels/dropout_mask.hpp"
#include "kernels/gpu/tail_rows.hpp"

namespace axonn {
namespace {

// `kernel`: its name in --kernels.
[[noreturn]] void refuse(const char* where, const std::string& kernel) {
  throw BackendError(where, "this build has no CUDA, so it has no kernel " + kernel + "; use preset cuda");
}
[[noreturn]] void refuse_cross_entropy() { refuse("layers.cross_entropy", "cross-entropy"); }
[[noreturn]] void refuse_embedding() { refuse("layers.embedding", "embedding"); }
[[noreturn]] void refuse_group_norm() { refuse("layers.group_norm", "group-norm"); }
[[noreturn]] void refuse_layer_norm() { refuse("layers.layer_norm", "layer-norm"); }

}  // namespace

void check_gpu_code(int) {}  // without CUDA there is no device

void fill_cuda_mask(void*, c10::ScalarType, const DropoutMask&, const MaskColumns&, int) {
  throw BackendError("layers.dropout", "this build has no CUDA, so no mask is drawn on a GPU");
}

void cross_entropy_forward(const LogitRows&, void*, void*, int) { refuse_cross_entropy(); }
void cross_entropy_backward(const LogitRows&, const void*, const void*, int) { refuse_cross_entropy(); }

int64_t embedding_scratch_bytes(const TokenGradients&) { refuse_embedding(); }
void embedding_backward(const TokenGradients&, void*, void*, bool, int) { refuse_embedding(); }

bool group_norm_images_fit(c10::ScalarType, int64_t, int64_t) { return false; }
void group_norm_forward(const NormedImages&, void*, int) { refuse_group_norm(); }
void group_norm_backward(const NormedImages&, const void*, void*, void*, void*, int) { refuse_group_norm(); }

bool layer_norm_rows_fit(c10::ScalarType, int64_t) { return false; }
int64_t layer_norm_parts(int64_t) { refuse_layer_norm(); }
void layer_norm_backward(const LayerNormRows&, const void*, const void*, void*, void*, int) { refuse_layer_norm(); }
void norm_sums(const NormParts&, const NormSum&, const NormSum&, int) { refuse_layer_norm(); }

bool multiply(const Product&, int) { refuse("layers.product", "epilogues"); }

void add_tail(const TailRows&, int) { refuse("layers.tail", "tail"); }

}  // namespace axonn
