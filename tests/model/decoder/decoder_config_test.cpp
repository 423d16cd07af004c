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
  EXPECT_USER_ERROR(check_decoder(with([](DecoderShape& shape) { shape.kv_heads = 2; }), {}),
                    "this one has 2 heads of keys for 4: leave that out");
  EXPECT_USER_ERROR(check_decoder(with([](DecoderShape& shape) { shape.gated = true; }), {}), "has a gated MLP");
  EXPECT_USER_ERROR(check_decoder(with([](DecoderShape& shape) { shape = rotated(shape); }), {}),
                    "has no table of positions, norms without bias, layers without bias");
  EXPECT_USER_ERROR(check_decoder(with([](DecoderShape& shape) { shape.heads = 3, shape.hidden = 96; }), {.x = 2}),
                    "heads must divide by x");
}

}  // namespace
}  // namespace axonn
