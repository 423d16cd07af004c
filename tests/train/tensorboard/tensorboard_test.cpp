#include "train/tensorboard/tensorboard.hpp"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "support/scratch.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using test::Scratch;

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

// The steps whose START is in the file, up to 127: field 2 is the step, field 7 says START.
std::vector<int> starts_in(const fs::path& file) {
  const std::string bytes = test::read(file);
  std::vector<int> steps;
  for (size_t at = bytes.find("\x3a\x02\x08\x01"); at != std::string::npos; at = bytes.find("\x3a\x02\x08\x01", at + 1))
    steps.push_back(bytes[at - 1]);
  return steps;
}

TEST(TensorBoard, EveryStartHasAFileThatComesAfterTheOthers) {
  const Scratch scratch;
  scratch.file("tb/events.out.tfevents.9000000000.host.1", "");  // by a clock that is ahead
  {
    TensorBoard first(scratch.path(), 0);
  }
  {
    TensorBoard second(scratch.path(), 41);
  }
  const auto files = files_in(scratch / "tb");
  ASSERT_EQ(files.size(), 3u);
  EXPECT_TRUE(files[1].filename().string().starts_with("events.out.tfevents.9000000001."));
  EXPECT_TRUE(files[2].filename().string().starts_with("events.out.tfevents.9000000002."));
  EXPECT_EQ(starts_in(files[1]), std::vector<int>{1});
  EXPECT_EQ(starts_in(files[2]), std::vector<int>{42});
}

TEST(TensorBoard, GoesBackWithinAFile) {
  const Scratch scratch;
  TensorBoard tensorboard(scratch.path(), 0);
  tensorboard.add(1, {{"step", 1}, {"loss", 2}});
  tensorboard.go_back(0);
  EXPECT_EQ(starts_in(files_in(scratch / "tb").front()), (std::vector<int>{1, 1}));
}

TEST(TensorBoard, LeavesDetailsToTheMetrics) {
  const Scratch scratch;
  TensorBoard tensorboard(scratch.path(), 0);
  tensorboard.add(1,
                  {{"step", 1}, {"seconds.step", 2}, {"communication.data.bytes", 3}, {"linear_products.overlap", 4}});
  tensorboard.flush();
  const std::string bytes = test::read(files_in(scratch / "tb").front());
  EXPECT_NE(bytes.find("seconds/step"), std::string::npos);
  for (const char* detail : {"data", "overlap", "bytes"}) EXPECT_EQ(bytes.find(detail), std::string::npos) << detail;
}

// As on a full disk: no file of this process may have more bytes.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit small{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~SmallFiles() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, handler_);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(TensorBoard, AFullDiskIsLoggedOnceAndEndsNothing) {
  const Scratch scratch;
  TensorBoard tensorboard(scratch.path(), 0);
  const fs::path file = files_in(scratch / "tb").front(), sample = scratch.file("a.txt", std::string(20000, 'x'));
  testing::internal::CaptureStderr();
  {
    const SmallFiles small(10000);
    EXPECT_NO_THROW({
      tensorboard.add_sample(1, sample);
      tensorboard.flush();
    });
  }
  const auto torn = fs::file_size(file);
  tensorboard.add(2, {{"loss", 1}});
  tensorboard.go_back(1);
  tensorboard.flush();
  EXPECT_EQ(fs::file_size(file), torn) << "nothing follows a torn record";
  const std::string log = testing::internal::GetCapturedStderr(), words = "the run goes on without them";
  const size_t first = log.find(words);
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find(words, first + 1), std::string::npos) << log;
}

TEST(TensorBoard, SamplesAreTextsAndImages) {
  const Scratch scratch;
  TensorBoard tensorboard(scratch.path(), 0);
  tensorboard.add_sample(1, scratch.file("samples/step-000001.txt", "<b>one\n\xff *two*"));
  const std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\2\0\0\0\3", 24);
  tensorboard.add_sample(1, scratch.file("samples/step-000001.png", png));
  tensorboard.flush();
  const std::string bytes = test::read(files_in(scratch / "tb").front());
  EXPECT_NE(bytes.find("    <b>one\n    \\xFF *two*\n"), std::string::npos);
  EXPECT_NE(bytes.find(png), std::string::npos);
}

}  // namespace
}  // namespace axonn
