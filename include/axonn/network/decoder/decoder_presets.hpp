#pragma once

#include <span>
#include <string_view>

#include "axonn/network/decoder/decoder_shape.hpp"

namespace axonn {

using DecoderPreset = Preset<DecoderShape>;

// gpt-tiny, gpt-124m (the smallest GPT-2), and gpt5b .. gpt80b of Table I of the AxoNN paper. The
// paper does not give the sequence (here 2048) and the vocabulary (here 51200).
inline std::span<const DecoderPreset> decoder_presets() { return Sizes<DecoderShape>::presets(); }

// Throws UserError with the nearest name, or all names, when there is none.
inline const DecoderPreset& find_decoder_preset(std::string_view name) { return find_preset(decoder_presets(), name); }

}  // namespace axonn
