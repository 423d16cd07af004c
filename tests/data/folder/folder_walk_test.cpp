#include "data/folder/folder_walk.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>

#include <gtest/gtest.h>

#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using test::Scratch;
using Lines = std::vector<std::string>;

Lines names(const FolderWalk& walk) {
  Lines lines;
  for (const FolderFile& file : walk.files) lines.push_back(file.name);
  return lines;
}

Lines left_out(const FolderWalk& walk) {
  Lines lines;
  for (const FilesRead::LeftOut& one : walk.left_out) lines.push_back(one.name + ": " + one.reason);
  return lines;
}

TEST(FolderWalk, FindsRegularFilesInTheOrderOfTheirNames) {
  const Scratch scratch;
  for (const char* name : {"d/b", "d/a/z", "d/a.txt", "d/c/d/e/f", "d/.hidden/x", "d/a/.x", "d/\xff"})
    scratch.file(name, "abc");
  fs::create_directories(scratch / "d/nothing");
  const FolderWalk walk = walk_folder(scratch / "d");
  EXPECT_EQ(names(walk), (Lines{"a.txt", "a/z", "b", "c/d/e/f", "\xff"}));
  EXPECT_EQ(left_out(walk), (Lines{".hidden: hidden", "a/.x: hidden"}));
  EXPECT_EQ(walk.folders, (Lines{"a", "c", "nothing"}));
  EXPECT_EQ(walk.files.front().bytes, 3);
}

TEST(FolderWalk, ReadsWhatALinkLeadsToOnce) {
  const Scratch scratch;
  scratch.file("d/a", "a");
  scratch.file("d/sub/b", "b");
  scratch.file("d/.store/s", "s");
  scratch.file("out/x", "x");
  scratch.file("out/deep/y", "y");
  scratch.file("single", "z");
  const auto link = [&](const char* to, const char* name) { fs::create_symlink(to, scratch / name); };
  link("a", "d/0-to-a");  // comes before it
  link("sub", "d/0-to-sub");
  link("../single", "d/single");
  link("../single", "d/single-2");
  link(".store/s", "d/stored");  // as git-annex and hubs of models do
  link("../out", "d/out");
  link("../../out/deep", "d/sub/deep");                       // is reached by out/deep too
  fs::create_hard_link(scratch / "d/a", scratch / "d/hard");  // is a file of its own: a copy makes it one
  const FolderWalk walk = walk_folder(scratch / "d");
  EXPECT_EQ(names(walk), (Lines{"a", "hard", "out/deep/y", "out/x", "single", "stored", "sub/b"}));
  EXPECT_EQ(left_out(walk),
            (Lines{".store: hidden", "0-to-a: link to what is read already", "0-to-sub: link to what is read already",
                   "single-2: link to what is read already", "sub/deep: link to what is read already"}));
}

TEST(FolderWalk, EndsWhateverLinksMeet) {
  const Scratch scratch;
  scratch.file("d/a", "a");
  fs::create_directories(scratch / "d/sub");
  const auto link = [&](const fs::path& to, const char* name) { fs::create_symlink(to, scratch / name); };
  link("self", "d/self");
  link("two", "d/one"), link("one", "d/two");
  link("gone", "d/dangling");
  link("a/b", "d/through-a-file");
  link(".", "d/here"), link("..", "d/up"), link("/", "d/all"), link("..", "d/sub/up");
  // Twelve folders that all link to all others have 12! ways through them.
  for (int i = 0; i < 12; ++i) {
    const fs::path folder = scratch / "knot" / std::to_string(i);
    fs::create_directories(folder);
    scratch.file("knot/" + std::to_string(i) + "/file", "x");
    for (int j = 0; j < 12; ++j)
      if (i != j) fs::create_symlink("../" + std::to_string(j), folder / ("to-" + std::to_string(j)));
  }
  link("../knot/0", "d/knot");
  const FolderWalk walk = walk_folder(scratch / "d");
  EXPECT_EQ(walk.files.size(), 13U);
  const Lines others = left_out(walk);
  for (const char* line :
       {"self: link to itself", "one: link to itself", "two: link to itself", "dangling: link to nothing",
        "through-a-file: link to nothing", "up: link to a folder above", "all: link to a folder above",
        "here: link to what is read already", "sub/up: link to what is read already"})
    EXPECT_EQ(std::ranges::count(others, line), 1) << line;
}

TEST(FolderWalk, OpensNeitherPipesNorSocketsNorDevices) {
  const Scratch scratch;
  scratch.file("d/a", "a");
  const fs::path folder = scratch / "d";
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", folder / "to-pipe");
  fs::create_symlink("/dev/zero", folder / "zero");
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::strncpy(address.sun_path, (folder / "socket").c_str(), sizeof address.sun_path - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << std::strerror(errno);
  ::close(socket);
  const FolderWalk walk = walk_folder(folder);
  EXPECT_EQ(names(walk), Lines{"a"});
  EXPECT_EQ(left_out(walk), (Lines{"pipe: pipe", "socket: socket", "to-pipe: pipe", "zero: device"}));
}

TEST(FolderWalk, LeavesRunsOut) {
  const Scratch scratch;
  for (const char* name : {"metrics.jsonl", "status.json", "starts.jsonl", "config.toml", "environment.json",
                           "tb/events.out.tfevents.1", "step-000003/manifest.json", "samples/a.png"})
    for (const char* run : {"d/run/", "d/deep/run/", "here/"}) scratch.file(std::string(run) + name, "{}");
  scratch.file("d/locked/job-7.lock", "{}");
  scratch.file("d/old/step-000500/manifest.json", "{}");  // a run of another program of axonn
  scratch.file("d/checkpoint/manifest.json", "{}"), scratch.file("d/checkpoint/x0-y0-z0.safetensors", "{}");
  scratch.file("d/mine/metrics.jsonl", "{}"), scratch.file("d/mine/step-1/manifest.json", "{}");  // others' files
  scratch.file("here/text", "t"), scratch.file("here/job-1.lock", "{}");
  scratch.file("here/tokens/0123456789abcdef/part-00000.idx", "x"), scratch.file("here/origin/merges.txt", "a b");
  fs::create_symlink("../outside", scratch / "d/linked");
  scratch.file("outside/metrics.jsonl", "{}"), scratch.file("outside/starts.jsonl", "{}");
  const FolderWalk walk = walk_folder(scratch / "d");
  EXPECT_EQ(names(walk), (Lines{"mine/metrics.jsonl", "mine/step-1/manifest.json"}));
  EXPECT_EQ(left_out(walk), (Lines{"checkpoint: run of axonn", "deep/run: run of axonn", "linked: run of axonn",
                                   "locked: run of axonn", "old: run of axonn", "run: run of axonn"}));
  EXPECT_EQ(names(walk_folder(scratch / "here")), Lines{"text"});  // --data . --out .
  EXPECT_TRUE(walk_folder(scratch / "d/checkpoint").files.empty());
}

TEST(FolderWalk, NamesAFolderThatCannotBeRead) {
  const Scratch scratch;
  EXPECT_USER_ERROR(walk_folder(scratch / "none"), "cannot read the directory", "none: No such file");
  EXPECT_USER_ERROR(walk_folder(scratch.file("file", "")), "cannot read the directory", "file: Not a directory");
}

TEST(FilesRead, IsOneLine) {
  FilesRead read{.files = 12, .bytes = 3'100'000};
  EXPECT_EQ(read.to_string(), "read 12 files, 3.1 MB");
  read.left_out = {{"gzip", "a.gz"}, {"hidden", ".git"}, {"gzip", "b\n.gz"}, {"gzip", "c\xff"}, {"gzip", "d"}};
  EXPECT_EQ(read.to_string(),
            "read 12 files, 3.1 MB; left out 5: gzip a.gz, b\\x0A.gz, c\\xFF and 1 more; hidden .git");
  EXPECT_EQ((FilesRead{.files = 1, .bytes = 17}).to_string(), "read 1 file, 17 B");
}

}  // namespace
}  // namespace axonn
