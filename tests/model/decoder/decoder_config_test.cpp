#include "axonn/model/decoder/config.hpp"

#include <functional>

#include <gtest/gtest.h>

#include "support/user_error.hpp"

namespace axonn {
namespace {

TEST(DecoderConfig, RefusesWhatIsNotTrainedByItsName) {
  const auto with = [](const std::function<void(DecoderShape&)>& change) {
    DecoderConfig config;
    change(config.shape);
    return config;
  };
  EXPECT_NO_THROW(check_decoder(DecoderConfig(), {}));
  EXPECT_USER_ERROR(check_decoder(with([](DecoderShape& shape) { shape.block_norms = 4; }), {}),
                    "cannot be trained yet, as it has 4 norms per block: leave that out");
  EXPECT_USER_ERROR(
      check_decoder(
          with([](DecoderShape& shape) { shape.experts = 4, shape.token_experts = 2, shape.expert_hidden = 8; }), {}),
      "has 4 experts");
  EXPECT_USER_ERROR(check_decoder(with([](DecoderShape& shape) { shape.kv_heads = 2; }), {.x = 4}),
                    "x must divide the heads of keys, got kv_heads = 2 and x = 4", "x may be 1, 2");
  EXPECT_USER_ERROR(check_decoder(with([](DecoderShape& shape) { shape.heads = 3, shape.hidden = 96; }), {.x = 2}),
                    "heads must divide by x");
}

}  // namespace
}  // namespace axonn
