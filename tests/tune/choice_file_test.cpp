// The tuner's choices on disk.
#include "axonn/tune/choice_file.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "axonn/coconet/transform/transformation.hpp"
#include "tune/sgd_program.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn::tune {
namespace {

using namespace coconet;

// The last line of a file of this text.
std::string end_of(const std::string& text) {
  const uint64_t hash = fnv(text);
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return "end " + std::string(digits) + "\n";
}

class ChoiceFilesTest : public testing::Test {
 protected:
  ChoiceKey key(const char* machine = "this one") const { return {program_, {{"N", 1024}}, 4, "threads", machine}; }
  // The words that find() writes to the log.
  std::string words_of_find(const ChoiceKey& of) {
    testing::internal::CaptureStderr();
    found_ = files_.find(of);
    return testing::internal::GetCapturedStderr();
  }
  Choice choice() const {
    Schedule schedule(program_);
    schedule.split("sum", SplitPolicy::reduce_scatter).reorder("sum", {"w1"});
    return {schedule.log(), 0.0125, {3, 16384, 64}};
  }

  const Program program_ = sgd();
  axonn::test::Scratch scratch_;
  ChoiceFiles files_{scratch_ / "choices"};
  std::optional<Choice> found_;
};

TEST_F(ChoiceFilesTest, KeepsAChoiceByProgramSizesRanksAndBackend) {
  EXPECT_EQ(words_of_find(key()), "");
  EXPECT_FALSE(found_);
  files_.save(key(), choice());
  EXPECT_EQ(words_of_find(key()), "");
  ASSERT_TRUE(found_);
  EXPECT_EQ(found_->log, choice().log);
  EXPECT_EQ(found_->seconds, 0.0125);
  EXPECT_EQ(found_->settings, (RunSettings{3, 16384, 64}));
  ChoiceKey other = key();
  other.sizes["N"] = 2048;
  EXPECT_FALSE(files_.find(other));
  other = key();
  other.ranks = 2;
  EXPECT_FALSE(files_.find(other));
  other = key();
  other.backend = "mpi";
  EXPECT_FALSE(files_.find(other));
  const Program another =
      parse_program(std::string(kSgd).replace(std::string(kSgd).find("lr * sum"), 8, "sum * lr"), "x");
  EXPECT_FALSE(files_.find({another, {{"N", 1024}}, 4, "threads", "this one"}));
}

TEST_F(ChoiceFilesTest, RenewsTheChoiceOfAnotherMachine) {
  files_.save(key("a faster one"), choice());
  const std::string words = words_of_find(key());
  EXPECT_FALSE(found_);
  EXPECT_NE(words.find("is of another machine, a faster one; it is renewed"), std::string::npos) << words;
  EXPECT_EQ(std::ranges::count(words, '\n'), 1) << words;
  files_.save(key(), choice());
  EXPECT_TRUE(files_.find(key()));
}

TEST_F(ChoiceFilesTest, RenewsTheChoiceOfAnotherVersion) {
  files_.save(key(), choice());
  std::string text = axonn::test::read(files_.path_of(key()));
  text.replace(0, 14, "axonn choice 2");
  text.resize(text.rfind("end "));
  std::ofstream(files_.path_of(key()), std::ios::binary) << text << end_of(text);
  const std::string words = words_of_find(key());
  EXPECT_FALSE(found_);
  EXPECT_NE(words.find("is of another version of axonn; it is renewed"), std::string::npos) << words;
}

// Its end fits, but what it says is none of the program's schedules, or no settings.
TEST_F(ChoiceFilesTest, RenewsWhatIsNoChoice) {
  files_.save(key(), choice());
  const std::string whole = axonn::test::read(files_.path_of(key()));
  for (const auto& [from, to] : {std::pair("split(sum", "split(some"),
                                 {"threads=3", "threads=0"},
                                 {"rows=", "seats="},
                                 {"seconds 0.0125", "seconds soon"},
                                 {"\nschedule\n", "\n"}}) {
    std::string text = whole.substr(0, whole.rfind("end "));
    text.replace(text.find(from), std::string(from).size(), to);
    std::ofstream(files_.path_of(key()), std::ios::binary) << text << end_of(text);
    const std::string words = words_of_find(key());
    EXPECT_FALSE(found_) << text;
    EXPECT_NE(words.find(files_.path_of(key()).string() + " is corrupt ("), std::string::npos) << words;
    EXPECT_EQ(std::ranges::count(words, '\n'), 1) << words;
  }
}

TEST_F(ChoiceFilesTest, NamesAndRenewsACorruptFile) {
  files_.save(key(), choice());
  const std::string whole = axonn::test::read(files_.path_of(key()));
  for (size_t cut = 0; cut < whole.size(); cut += 7) {
    std::string text = whole.substr(0, cut);
    std::ofstream(files_.path_of(key()), std::ios::binary) << text;
    EXPECT_NE(words_of_find(key()).find(files_.path_of(key()).string() + " is corrupt"), std::string::npos) << text;
    EXPECT_FALSE(found_) << text;
    text = whole;
    text[cut] = static_cast<char>(text[cut] ^ 1);
    std::ofstream(files_.path_of(key()), std::ios::binary) << text;
    EXPECT_NE(words_of_find(key()).find("is corrupt"), std::string::npos) << text;
    EXPECT_FALSE(found_) << text;
  }
  files_.save(key(), choice());
  EXPECT_TRUE(files_.find(key()));
}

TEST_F(ChoiceFilesTest, SaysWhereItCannotWrite) {
  const ChoiceFiles nowhere(scratch_.file("a file", "") + "/choices");
  EXPECT_USER_ERROR(nowhere.save(key(), choice()), "cannot write the tuner's choice to", "name another folder");
}

}  // namespace
}  // namespace axonn::tune
