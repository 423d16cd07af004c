#include "axonn/data/text/questions.hpp"

#include <gtest/gtest.h>

#include "data/text/question_files.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;
using Tokens = std::vector<int32_t>;

const Tokenizer kBytes = Tokenizer::bytes();

TEST(Questions, OfLinesHaveTokensAndLengths) {
  const Scratch scratch;
  const std::string file =
      scratch.file("lines.jsonl", R"({"ctx": "One and", "endings": ["two.", "caf\u00e9"], "label": 1, "ind": 7})"
                                  "\r\n\n"
                                  R"({"context": "x", "endings": ["a", "b", "c"], "label": 0})");
  const std::vector<Question> questions = read_questions(file, &kBytes);
  ASSERT_EQ(questions.size(), 2U);
  const Question& first = questions[0];
  EXPECT_EQ(kBytes.decode(first.context), "One and");
  ASSERT_EQ(first.endings.size(), 2U);
  EXPECT_EQ(kBytes.decode(first.endings[0].tokens), " two.");
  EXPECT_EQ(kBytes.decode(first.endings[1].tokens), " caf\xC3\xA9");
  EXPECT_EQ(first.endings[1].characters, 4);
  EXPECT_EQ(first.endings[1].bytes, 5);
  EXPECT_EQ(first.label, 1U);
  EXPECT_EQ(questions[1].context, (Tokens{'x'}));
  EXPECT_EQ(questions[1].endings.size(), 3U);
}

TEST(Questions, OfBrokenLinesAreRefusedByFileAndLine) {
  const Scratch scratch;
  const std::string good = R"({"ctx": "a", "endings": ["b", "c"], "label": 1})";
  for (const auto& broken : std::vector<std::pair<std::string, std::string>>{
           {"[1]", "an object of JSON"},
           {good.substr(0, 20), "an object of JSON"},
           {"\xff" + good, "an object of JSON"},
           {std::string(200, '['), "an object of JSON"},
           {R"({"endings": ["b", "c"], "label": 1})", "'ctx' or 'context'"},
           {R"({"ctx": "", "endings": ["b", "c"], "label": 1})", "'ctx' or 'context'"},
           {R"({"ctx": 3, "endings": ["b", "c"], "label": 1})", "'ctx' or 'context'"},
           {R"({"ctx": "a", "endings": ["b"], "label": 0})", "at least two texts"},
           {R"({"ctx": "a", "endings": {"b": "c"}, "label": 0})", "at least two texts"},
           {R"({"ctx": "a", "endings": ["b", ""], "label": 0})", "at least two texts"},
           {R"({"ctx": "a", "endings": ["b", "c"], "label": 2})", "the right ending"},
           {R"({"ctx": "a", "endings": ["b", "c"], "label": -1})", "the right ending"},
           {R"({"ctx": "a", "endings": ["b", "c"], "label": "1"})", "the right ending"},
           {R"({"ctx": "a", "endings": ["b", "c"]})", "the right ending"}})
    EXPECT_USER_ERROR(read_questions(scratch.file("lines", good + "\n" + broken.first), &kBytes),
                      "lines line 2 is no question", broken.second);
  const Tokenizer chars = Tokenizer::chars("abc ");
  const std::string odd = R"({"ctx": "a", "endings": ["b", "d"], "label": 1})";
  EXPECT_USER_ERROR(read_questions(scratch.file("lines", odd), &chars), "lines line 1: character 'd'");
}

TEST(Questions, OfNoUseAreRefused) {
  const Scratch scratch;
  EXPECT_USER_ERROR(read_questions(scratch.file("empty", "\n \n"), &kBytes), "empty has no question", "each line");
  EXPECT_USER_ERROR(read_questions(scratch.file("text", "{}"), nullptr), "text is text, and this model has no");
  EXPECT_USER_ERROR(read_questions(scratch / "none", &kBytes), "none", "correct the path");
  EXPECT_USER_ERROR(read_questions(scratch.path(), &kBytes), "it is a folder");
}

std::vector<Question> some_questions() {
  return {{.context = {1, 2, 65535}, .endings = {{.tokens = {3}}, {.tokens = {4, 5}}}, .label = 1},
          {.context = {7}, .endings = {{.tokens = {8, 9}}, {.tokens = {10}}, {.tokens = {11}}}, .label = 0}};
}

TEST(Questions, OfLlmcsFileAreItsTokens) {
  const Scratch scratch;
  const std::vector<Question> expected = some_questions(),
                              got = read_questions(scratch.file("choices.bin", llmc_file(expected)), nullptr);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].context, expected[i].context);
    EXPECT_EQ(got[i].label, expected[i].label);
    ASSERT_EQ(got[i].endings.size(), expected[i].endings.size());
    for (size_t ending = 0; ending < got[i].endings.size(); ++ending) {
      EXPECT_EQ(got[i].endings[ending].tokens, expected[i].endings[ending].tokens);
      EXPECT_EQ(got[i].endings[ending].bytes, 0);
    }
  }
}

// The first question is the bytes 1024 to 1051: its mark, length, index, label, endings, context.
TEST(Questions, OfABrokenFileAreRefusedByByte) {
  const Scratch scratch;
  const std::string good = llmc_file(some_questions());
  const auto refused = [&](const std::string& bytes, const std::string& byte, const std::string& words) {
    EXPECT_USER_ERROR(read_questions(scratch.file("choices.bin", bytes), &kBytes),
                      "choices.bin is no whole file of HellaSwag, at byte " + byte + ": ", words);
  };
  const auto with = [&](size_t place, size_t value, size_t size = 2) {
    std::string number;
    test::append_number(number, value, size);
    return std::string(good).replace(place, size, number);
  };
  refused(good.substr(0, 1000), "0", "1024 bytes");
  refused(with(4, 2, 4), "4", "version");
  refused(with(8, 0xFFFFFFFF, 4), std::to_string(good.size()), "cut short");  // no memory for so many
  refused(with(8, 1, 4), "1052", "fewer questions");
  refused(with(1024, 65534), "1024", "65535");
  refused(with(1026, 30), "1024", "as many bytes");
  refused(with(1030, 2), "1024", "a label");
  refused(with(1032, 0xFFFF), std::to_string(good.size()), "cut short");
  refused(with(1034, 0), "1034", "at least one token");
  refused(good.substr(0, good.size() - 1), std::to_string(good.size() - 2), "cut short");
  refused(good + "ab", std::to_string(good.size()), "fewer questions");
  std::vector<Question> one = some_questions();
  one[1].endings.resize(1);
  refused(llmc_file(one), "1052", "two endings");
}

TEST(Questions, OfTheStoredFilesAreThoseOfTheirMaker) {
  const auto folder = std::filesystem::path(AXONN_HF_ORACLES) / "smollm2_135m";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs " << folder;
  const auto tokens = read_questions(folder / "choices.bin", nullptr);
  const auto texts = read_questions(folder / "choices.jsonl", &kBytes);
  ASSERT_EQ(tokens.size(), 10U);
  ASSERT_EQ(texts.size(), 10U);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(tokens[i].label, texts[i].label);
    EXPECT_EQ(tokens[i].endings.size(), 4U);
    EXPECT_EQ(texts[i].endings.size(), 4U);
  }
  EXPECT_EQ(tokens[0].context, (Tokens{504, 3575, 282, 4521, 314}));
  EXPECT_EQ(tokens[0].endings[3].tokens, (Tokens{4461, 30}));
  EXPECT_EQ(kBytes.decode(texts[0].context), "The capital of Germany is");
  EXPECT_EQ(kBytes.decode(texts[0].endings[0].tokens), " Berlin.");
}

}  // namespace
}  // namespace axonn
