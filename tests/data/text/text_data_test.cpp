#include "axonn/data/text/text_data.hpp"

#include <cstdlib>
#include <filesystem>
#include <functional>

#include <gtest/gtest.h>
#include <unistd.h>

#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using test::Scratch;

std::string text_of(const TextData& data) { return data.tokenizer().decode(data.tokens()); }

TEST(TextData, DirectoriesAreReadInTheOrderOfTheirPathsWithoutHiddenAndBinaryFiles) {
  Scratch scratch;
  scratch.file("d/b.txt", "B");
  scratch.file("d/a/z.txt", "A");
  scratch.file("d/c.txt", "C");
  scratch.file("d/.hidden", "H");
  scratch.file("d/.git/config", "H");
  scratch.file("d/binary", std::string("x\0y", 3));
  const std::string last = scratch.file("last", "L!");
  const auto data = TextData::load({scratch / "d", last}, TokenizerKind::bytes);
  EXPECT_EQ(data.files().files, 4);
  EXPECT_EQ(text_of(data), "A\nB\nC\nL!");
}

std::string log_of(const std::function<void()>& action) {
  testing::internal::CaptureStderr();
  action();
  return testing::internal::GetCapturedStderr();
}

void load(const std::vector<std::string>& paths, TokenizerKind kind = TokenizerKind::bytes) {
  TextData::load(paths, kind);
}

const std::string kGzip("\x1f\x8b\x08\0abc", 7), kPointer = "version https://git-lfs.github.com/spec/v1\noid ",
                                                 kPage = "<!DOCTYPE html><title>Not found</title>",
                                                 kWide("a\0b\0c\0", 6);

TEST(TextData, OneLineSaysWhatWasReadAndLeftOut) {
  Scratch scratch;
  scratch.file("d/a.txt", "A");
  scratch.file("d/page.html", kPage);
  for (const auto& [name, content] : {std::pair<const char*, std::string>{"a.txt.gz", kGzip},
                                      {"big.txt", kPointer},
                                      {"error.txt", kPage},
                                      {"wide.txt", kWide},
                                      {"empty", ""},
                                      {"tokens.bin", "\0\1"}})
    scratch.file(std::string("d/") + name, content);
  scratch.file("d/tokens.bin", std::string("\x01\0\x02\0", 4));
  std::filesystem::create_symlink("self", scratch / "d/self");
  const std::string last = scratch.file("last.txt", "L");
  const std::string log = log_of([&] { load({scratch / "d", last}); });
  EXPECT_EQ(log, "[info] " + (scratch / "d").string() + ", " + last +
                     ": read 3 files, 41 B; left out 7: gzip a.txt.gz; git-lfs pointer big.txt; empty empty; "
                     "HTML page error.txt; link to itself self; binary tokens.bin; UTF-16 wide.txt\n");
}

TEST(TextData, AFileThatIsNamedIsReadOrRefusedAndNeverSilently) {
  Scratch scratch;
  EXPECT_USER_ERROR(load({scratch.file("a.gz", kGzip)}), "a.gz is no text, it seems to be gzip; unpack it with gunzip");
  EXPECT_USER_ERROR(load({scratch.file("p.txt", kPointer)}), "seems to be git-lfs pointer; git lfs pull");
  for (const auto& [name, content, kind] : {std::tuple<const char*, std::string, const char*>{
                                                "wide.txt", kWide, "UTF-16, its bytes are trained on as they "},
                                            {"page.txt", kPage, "HTML page"},
                                            {"train.bin", std::string("\x01\0\x02\0", 4), "binary"},
                                            {"e", "", "e is empty"}}) {
    const std::string file = scratch.file(name, content), text = scratch.file("text", "some");
    const std::string log = log_of([&] { load({file, text}); });
    EXPECT_NE(log.find("[warning] " + file), std::string::npos) << log;
    EXPECT_NE(log.find(kind), std::string::npos) << log;
  }
}

TEST(TextData, APartOfZerosIsTold) {
  Scratch scratch;
  std::string text(9000, 'x');
  const std::string file = scratch.file("d/t", text.replace(8500, 100, 100, '\0'));
  const std::string log = log_of([&] { load({file}); });
  EXPECT_EQ(log_of([&] { load({scratch / "d"}); }).find(log.substr(0, log.find('\n'))), 0U) << log;
  EXPECT_NE(log.find(file + " has 100 NUL bytes, the first at byte 8500"), std::string::npos) << log;
}

TEST(TextData, NamesMayBeAnyBytes) {
  Scratch scratch;
  const std::string folder = (scratch / "caf\xe9\n").string();
  scratch.file("caf\xe9\n/b\xff", "B"), scratch.file("caf\xe9\n/a", "A");
  EXPECT_EQ(text_of(TextData::load({folder}, TokenizerKind::chars)), "A\nB");
  const std::string log = log_of([&] { load({folder}); });
  EXPECT_NE(log.find("caf\\xE9\\x0A: read 2 files"), std::string::npos) << log;
  EXPECT_USER_ERROR(load({folder + "/none\xe9"}), "caf\\xE9\\x0A/none\\xE9 does not exist");
}

TEST(TextData, LinksThatLeadNowhereAreNamed) {
  Scratch scratch;
  std::filesystem::create_symlink("gone", scratch / "dangling");
  std::filesystem::create_symlink("self", scratch / "self");
  EXPECT_USER_ERROR(load({scratch / "dangling"}), "dangling is a link to what does not exist");
  EXPECT_USER_ERROR(load({scratch / "self"}), "cannot read the data path", "self: Too many levels of symbolic links");
}

// As a user who may read everything else: root may read all.
TEST(TextDataDeathTest, WhatCannotBeReadIsNamed) {
  Scratch scratch;
  scratch.file("d/a", "A");
  std::filesystem::permissions(scratch.file("d/b", "B"), std::filesystem::perms::none);
  scratch.file("e/closed/c", "C");
  std::filesystem::permissions(scratch / "e/closed", std::filesystem::perms::none);
  const auto load_as_nobody = [&](const std::string& path) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) std::_Exit(2);
    const std::string sentence = test::user_error([&] { load({path}); });
    std::fputs(sentence.c_str(), stderr);
    std::_Exit(sentence.empty() ? 3 : 0);
  };
  EXPECT_EXIT(load_as_nobody(scratch / "d"), testing::ExitedWithCode(0), "cannot read .*d/b: Permission denied");
  EXPECT_EXIT(load_as_nobody(scratch / "e"), testing::ExitedWithCode(0), "directory .*closed: Permission denied");
  EXPECT_EXIT(load_as_nobody(scratch / "d/b"), testing::ExitedWithCode(0), "cannot read .*d/b: Permission denied");
  std::filesystem::permissions(scratch / "e/closed", std::filesystem::perms::owner_all);
}

TEST(TextData, TheFingerprintTellsOtherDataAndOtherTokens) {
  Scratch scratch;
  const auto print = [&](const std::string& text, TokenizerKind kind) {
    return TextData::load({scratch.file("t", text)}, kind).fingerprint();
  };
  EXPECT_EQ(print("hello", TokenizerKind::bytes), print("hello", TokenizerKind::bytes));
  EXPECT_NE(print("hello", TokenizerKind::bytes), print("hellp", TokenizerKind::bytes));
  EXPECT_NE(print("hello", TokenizerKind::bytes), print("hello", TokenizerKind::chars));
}

TEST(TextData, MissingAndEmptyDataAreRefused) {
  Scratch scratch;
  const auto load = [](const std::string& path) { return TextData::load({path}, TokenizerKind::bytes); };
  EXPECT_USER_ERROR(load(scratch / "none"), "none does not exist");
  EXPECT_USER_ERROR(load(scratch.file("empty", "")), "no text in", "empty");
  std::filesystem::create_directories(scratch / "dir");
  EXPECT_USER_ERROR(load(scratch / "dir"), "no text in", "(read 0 files, 0 B)");
  EXPECT_USER_ERROR(load("/dev/null"), "neither a file nor a directory");
  EXPECT_USER_ERROR(TextData::load({}, TokenizerKind::bytes), "--data");
}

TEST(TextData, TextThatIsNotUtf8NamesFileAndByte) {
  Scratch scratch;
  scratch.file("d/a", "fine");
  const std::string bad = scratch.file("d/b", "abc\xff");
  EXPECT_USER_ERROR(TextData::load({scratch / "d"}, TokenizerKind::chars), bad + " is not UTF-8 at byte 3",
                    "--tokenizer bytes");
}

TEST(TextData, TheVocabularyOfACheckpointIsKept) {
  Scratch scratch;
  const std::string path = scratch.file("t", "abcabcabcx");
  EXPECT_USER_ERROR(TextData::load({path}, Tokenizer::chars("abc")), "'x'", "at byte 9");
  EXPECT_EQ(TextData::load({path}, Tokenizer::chars("abcwx")).tokenizer().vocabulary_size(), 5);
}

}  // namespace
}  // namespace axonn
