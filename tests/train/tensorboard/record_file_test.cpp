#include "train/tensorboard/record_file.hpp"

#include <gtest/gtest.h>

#include "support/scratch.hpp"
#include "support/user_error.hpp"
#include "train/tensorboard/hex_text.hpp"

namespace axonn {
namespace {

using test::hex_text;
using test::Scratch;

constexpr RecordFile::Seconds kNever{1e9}, kAtOnce{0};
constexpr size_t kFrame = 16;  // bytes around a record

TEST(RecordFile, HasLengthsAndChecksums) {
  const Scratch scratch;
  RecordFile file(scratch / "events", kAtOnce);
  file.add("hello");
  file.add("");
  EXPECT_EQ(hex_text(test::read(scratch / "events")),
            "0500000000000000eab2043e68656c6c6fbb1f1c19000000000000000029039807d8ea82a2");
}

TEST(RecordFile, WritesManyRecordsTogether) {
  const Scratch scratch;
  const auto bytes = [&] { return std::filesystem::file_size(scratch / "events"); };
  {
    RecordFile file(scratch / "events", kNever);
    for (int i = 0; i < 1000; ++i) file.add("a record of a step");
    EXPECT_EQ(bytes(), 0u);
    file.flush();
    EXPECT_EQ(bytes(), 1000 * (kFrame + 18));
    file.flush();
    file.add("the last one");
    EXPECT_EQ(bytes(), 1000 * (kFrame + 18));
  }
  EXPECT_EQ(bytes(), 1000 * (kFrame + 18) + kFrame + 12);
}

TEST(RecordFile, KeepsNoMoreThanItMay) {
  const Scratch scratch;
  RecordFile file(scratch / "events", kNever);
  file.add(std::string(RecordFile::kMostKept, 'x'));
  EXPECT_EQ(std::filesystem::file_size(scratch / "events"), RecordFile::kMostKept + kFrame);
}

TEST(RecordFile, SaysWhyItCannotBeWritten) {
  const Scratch scratch;
  EXPECT_USER_ERROR(RecordFile(scratch / "none/events"), "cannot write", "none/events: No such file");
}

}  // namespace
}  // namespace axonn
