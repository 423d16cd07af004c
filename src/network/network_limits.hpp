#pragma once

#include <cstdint>

// Far beyond any network; within them no product of sizes overflows.
namespace axonn::limits {

inline constexpr int64_t kLayers = 10'000;
inline constexpr int64_t kHidden = 1 << 20;
inline constexpr int64_t kTokens = 1 << 24;  // of a sequence, of a vocabulary; classes
inline constexpr double kElements = 1e15;    // of all layers' residual streams, or of a matrix in each

inline constexpr int64_t kImage = 4096;
inline constexpr int64_t kPictureChannels = 1024;
inline constexpr int64_t kChannels = 1 << 16;
inline constexpr int64_t kLevels = 12;
inline constexpr int64_t kBlocks = 64;

}  // namespace axonn::limits
