#pragma once

#include "axonn/model/decoder/config.hpp"
#include "axonn/model/unet/config.hpp"
#include "axonn/train/verification.hpp"

namespace axonn::bench {

// A network and a task with synthetic samples, for measuring steps. Not yet materialized.
VerifiedNetwork overlap_gpt(Context& context, const DecoderConfig& config);
VerifiedNetwork overlap_unet(Context& context, const UnetConfig& config);

}  // namespace axonn::bench
