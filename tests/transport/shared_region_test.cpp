#include "transport/node/shared_region.hpp"

#include <gtest/gtest.h>

#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

TEST(SharedRegion, AFifoInItsPlaceIsAnErrorAndNobodyWaitsForItsWriter) {
  const std::string path = testing::TempDir() + "axonn_fifo_" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  unlink(path.c_str());
  ASSERT_GE(file, 0);
  const OwnRegion region(1);
  RegionAddress address = region.address();
  address.file = file;
  alarm(10);  // ends the test if open() waits
  try {
    open_region(address);
    ADD_FAILURE();
  } catch (const BackendError& error) {
    EXPECT_NE(error.sentence().find("finding the shared region of rank 1"), std::string::npos) << error.sentence();
  }
  alarm(0);
  close(file);
}

// A number of another container's process may be one of ours.
TEST(SharedRegion, AnotherContainerIsNamed) {
  OwnRegion region(3);
  EXPECT_NO_THROW(open_region(region.address()));
  RegionAddress elsewhere = region.address();
  ++elsewhere.processes;
  try {
    open_region(elsewhere);
    FAIL();
  } catch (const BackendError& error) {
    EXPECT_NE(error.sentence().find("rank 3 is in another container"), std::string::npos) << error.sentence();
    EXPECT_NE(error.sentence().find("--pid=host"), std::string::npos) << error.sentence();
  }
}

}  // namespace
}  // namespace axonn
