#include "axonn/core/sentence.hpp"

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

std::string sentence_about_size_of(const fs::path& path) {
  try {
    (void)fs::file_size(path);
  } catch (const std::exception& error) {
    return sentence_of(error);
  }
  return "";
}

TEST(SentenceOf, APathThatTheSystemRefusesHasReasonAndCure) {
  const test::Scratch scratch;
  fs::create_symlink("self", scratch / "self");
  scratch.file("file", "text");
  const std::string begin = "cannot use " + scratch.path().string() + "/", name(300, 'n');
  EXPECT_EQ(sentence_about_size_of(scratch / "self"),
            begin +
                "self: Too many levels of symbolic links; a link in the path leads back to itself: remove it, or "
                "name what it should lead to");
  EXPECT_EQ(sentence_about_size_of(scratch / name), begin + name + ": File name too long; give it a shorter name");
  EXPECT_EQ(sentence_about_size_of(scratch / "file/x"),
            begin + "file/x: Not a directory; a part of the path is a file where a folder is needed: correct the path");
  EXPECT_EQ(sentence_about_size_of(scratch / "caf\xe9"),
            begin + "caf\\xE9: No such file or directory; correct the path");
}

TEST(SentenceOf, NamesBothPathsAndEveryReasonHasACure) {
  for (const int reason : {ELOOP, ENAMETOOLONG, ENOTDIR, EISDIR, ENOENT, EACCES, EPERM, EROFS, ENOSPC, EMFILE, EIO}) {
    const std::error_code code(reason, std::system_category());
    const std::string sentence = sentence_of(fs::filesystem_error("rename", "a", "b", code));
    EXPECT_TRUE(sentence.starts_with("cannot use a with b: " + code.message() + "; ")) << sentence;
    EXPECT_GT(sentence.size(), ("cannot use a with b: " + code.message() + "; correct").size()) << sentence;
  }
}

TEST(SentenceOf, VerboseAddsThePlaceOrTheLibrarysWords) {
  EXPECT_EQ(sentence_of(UserError("core.test", "a sentence"), true), "[core.test] a sentence");
  const fs::filesystem_error error("status", "a", {ELOOP, std::system_category()});
  EXPECT_EQ(sentence_of(error, true), sentence_of(error) + " [" + error.what() + "]");
}

TEST(SentenceOf, LeavesOtherErrorsAsTheyAre) {
  EXPECT_EQ(sentence_of(UserError("core.test", "a sentence")), "a sentence");
  EXPECT_EQ(sentence_of(std::runtime_error("words")), "words");
}

TEST(WhyNotRead, SaysWhatTheNameLeadsTo) {
  const test::Scratch scratch;
  EXPECT_TRUE(why_not_read(scratch.path().string()).starts_with("Is a directory; it is a folder where a file"));
  EXPECT_TRUE(why_not_read((scratch / "none").string()).starts_with("No such file or directory; "));
  EXPECT_EQ(why_not_read("/dev/null"), "it is no file; name a file");
}

}  // namespace
}  // namespace axonn
