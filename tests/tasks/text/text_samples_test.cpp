#include "axonn/tasks/text/text_samples.hpp"

#include <gtest/gtest.h>

#include "data/tokenizer/small_tokenizers.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

TEST(TextSamples, PromptsThatCannotBeContinuedAreRefused) {
  const test::Scratch scratch;
  test::Json json = test::byte_level_json();
  json["normalizer"] = test::replace_json("x", "");
  const std::optional<Tokenizer> tokenizer = Tokenizer::from_files(scratch.file("t/tokenizer.json", json.dump()));
  EXPECT_NO_THROW(check_samples({.prompt = "xhe"}, tokenizer, 1));
  EXPECT_USER_ERROR(check_samples({.prompt = "xx"}, tokenizer, 1), "--sample-prompt has no tokens");
  EXPECT_USER_ERROR(check_samples({.prompt = "hehe"}, tokenizer, 1), "--sample-prompt has 2 tokens");
  EXPECT_USER_ERROR(check_samples({.prompt = "he"}, std::nullopt, 1), "name one with --tokenizer");
}

}  // namespace
}  // namespace axonn
