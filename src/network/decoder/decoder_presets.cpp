#include "axonn/network/decoder/decoder_presets.hpp"

#include <array>

namespace axonn {
namespace {

constexpr DecoderShape table_1(int64_t layers, int64_t hidden, int64_t heads) {
  return {.layers = layers, .hidden = hidden, .heads = heads, .sequence = 2048, .vocabulary = 51200};
}

constexpr std::array kPresets = {
    DecoderPreset{"gpt-tiny", {.layers = 4, .hidden = 128, .heads = 4, .sequence = 128, .vocabulary = 256}},
    DecoderPreset{"gpt-124m",
                  {.layers = 12, .hidden = 768, .heads = 12, .sequence = 1024, .vocabulary = 50257, .tied_head = true}},
    DecoderPreset{"gpt5b", table_1(24, 4096, 32)},
    DecoderPreset{"gpt10b", table_1(32, 5120, 40)},
    DecoderPreset{"gpt20b", table_1(32, 7168, 56)},
    DecoderPreset{"gpt40b", table_1(38, 9216, 72)},
    DecoderPreset{"gpt80b", table_1(42, 12288, 96)},
};

}  // namespace

std::span<const DecoderPreset> Sizes<DecoderShape>::presets() { return kPresets; }

}  // namespace axonn
