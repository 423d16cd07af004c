#include "kernels/cpu/rotary_chains.hpp"

#include <array>
#include <cstddef>

#include "axonn/coconet/stages/stage_chain.hpp"
#include "kernels/cpu/row_chains.hpp"

namespace axonn {
namespace {

using at::Tensor;
using coconet::ElementType;
using coconet::PointwiseKernel;
using coconet::PointwiseOp;
using coconet::StageChain;
using Value = PointwiseKernel::Value;

// Streams: first half, second half, cosine, sine. (a, b) becomes (a cos - b sin, b cos + a sin), or
// the same with -sin.
StageChain turn_chain(ElementType type, bool back) {
  PointwiseKernel kernel;
  const ElementType inside = inside_of(type);
  const auto a = kernel.stream("first half", type), b = kernel.stream("second half", type);
  const Value first = kernel.cast(kernel.load(a), inside), second = kernel.cast(kernel.load(b), inside);
  const Value cosine = kernel.load(kernel.stream("cosine", inside)), sine = kernel.load(kernel.stream("sine", inside));
  const auto product = [&](Value x, Value y) { return kernel.apply(PointwiseOp::multiply, {x, y}); };
  const PointwiseOp minus = back ? PointwiseOp::add : PointwiseOp::subtract,
                    plus = back ? PointwiseOp::subtract : PointwiseOp::add;
  const Value new_first = kernel.apply(minus, {product(first, cosine), product(second, sine)});
  const Value new_second = kernel.apply(plus, {product(second, cosine), product(first, sine)});
  kernel.store(a, kernel.cast(new_first, type));
  kernel.store(b, kernel.cast(new_second, type));
  return StageChain(kernel);
}

struct Chains {
  explicit Chains(ElementType type) : forward(turn_chain(type, false)), backward(turn_chain(type, true)) {}
  StageChain forward, backward;
};

}  // namespace

void rotate_on_cpu(const Tensor& heads, const Tensor& cosines, const Tensor& sines, std::span<const int64_t> first,
                   bool back) {
  const int64_t sequence = heads.size(1), count = heads.size(2), half = heads.size(3) / 2, width = heads.element_size();
  const Chains& chains = chains_of<Chains>(heads.scalar_type());
  const StageChain& chain = back ? chains.backward : chains.forward;
  const Rows cosine(cosines), sine(sines);
  auto* const data = static_cast<std::byte*>(heads.mutable_data_ptr());
  for_row_blocks(heads.size(0) * sequence, [&](int64_t, int64_t token) {
    const int64_t sample = token / sequence, place = token % sequence;
    const int64_t position = first[static_cast<size_t>(sample)] + place;
    std::byte* head = data + (sample * heads.stride(0) + place * heads.stride(1)) * width;
    for (int64_t i = 0; i < count; ++i, head += heads.stride(2) * width) {
      const std::array<void*, 4> streams = {head, head + half * width, cosine.row(position), sine.row(position)};
      chain.run({.count = half, .streams = streams});
    }
  });
}

}  // namespace axonn
