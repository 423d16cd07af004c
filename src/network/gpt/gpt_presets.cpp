#include "axonn/network/gpt/gpt_presets.hpp"

#include <array>

namespace axonn {
namespace {

constexpr GptShape table_1(int64_t layers, int64_t hidden, int64_t heads) {
  return {.layers = layers, .hidden = hidden, .heads = heads, .sequence = 2048, .vocabulary = 51200};
}

constexpr std::array kPresets = {
    GptPreset{"gpt-tiny", {.layers = 4, .hidden = 128, .heads = 4, .sequence = 128, .vocabulary = 256}},
    GptPreset{"gpt-124m",
              {.layers = 12, .hidden = 768, .heads = 12, .sequence = 1024, .vocabulary = 50257, .tied_head = true}},
    GptPreset{"gpt5b", table_1(24, 4096, 32)},
    GptPreset{"gpt10b", table_1(32, 5120, 40)},
    GptPreset{"gpt20b", table_1(32, 7168, 56)},
    GptPreset{"gpt40b", table_1(38, 9216, 72)},
    GptPreset{"gpt80b", table_1(42, 12288, 96)},
};

}  // namespace

std::span<const GptPreset> Sizes<GptShape>::presets() { return kPresets; }

}  // namespace axonn
