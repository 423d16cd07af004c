// The last part of what kernels of CUDA text stand on, behind the stages' own headers.
namespace axonn::coconet {
namespace {

AXONN_INLINE F widen_bf16(U word) { return bits<F>(word << 16); }
AXONN_INLINE F round_fp16(F x) { return widen_half(half_word_of(x)); }

// Element `place` of the call.
AXONN_INLINE F draw_mask(const MaskRun& mask, int64_t place) {
  const uint64_t element = mask.first + static_cast<uint64_t>(place);
  const PhiloxBlocks words = philox_blocks(element / 4, mask.seed, mask.stream);
  const uint64_t pair = element % 4 < 2 ? words.low : words.high;
  const uint32_t word = static_cast<uint32_t>(element % 2 == 0 ? pair : pair >> 32);
  return mask.drops && word <= mask.last_dropped ? 0.0f : mask.kept;
}

}  // namespace
}  // namespace axonn::coconet
