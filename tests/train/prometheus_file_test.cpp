#include "train/report/prometheus_file.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

using test::Scratch;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(PrometheusText, HasANameAndALabelPerNumber) {
  EXPECT_EQ(prometheus_text({{"loss", 2.5}, {"seconds.step", 1e-3}, {"linear_products.mm-ar-c", 12}}, "runs/a", true),
            "# TYPE axonn_running gauge\naxonn_running{run=\"runs/a\"} 1\n"
            "# TYPE axonn_loss gauge\naxonn_loss{run=\"runs/a\"} 2.5\n"
            "# TYPE axonn_seconds_step gauge\naxonn_seconds_step{run=\"runs/a\"} 0.001\n"
            "# TYPE axonn_linear_products_mm_ar_c gauge\naxonn_linear_products_mm_ar_c{run=\"runs/a\"} 12\n");
}

TEST(PrometheusText, WritesNumbersThatAreNotFinite) {
  const std::string text = prometheus_text({{"a", std::nan("")}, {"b", kInfinity}, {"c", -kInfinity}}, "r", false);
  for (const char* line : {"axonn_running{run=\"r\"} 0\n", "axonn_a{run=\"r\"} NaN\n", "axonn_b{run=\"r\"} +Inf\n",
                           "axonn_c{run=\"r\"} -Inf\n"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
}

TEST(PrometheusText, ALabelEndsNoLine) {
  EXPECT_NE(prometheus_text({}, "a \"b\"\n\xff\\", true).find("{run=\"a \\\"b\\\"\\\\x0A\\\\xFF\\\\\"} 1\n"),
            std::string::npos);
}

TEST(PrometheusFile, IsThereAtOnceAndSaysTheNewestAtTheEnd) {
  const Scratch scratch;
  PrometheusFile file(scratch / "axonn.prom", "r");
  EXPECT_EQ(test::read(scratch / "axonn.prom"), prometheus_text({}, "r", true));
  for (int step = 1; step <= 1000; ++step) file.update({{"step", step}});
  file.end();
  EXPECT_EQ(test::read(scratch / "axonn.prom"), prometheus_text({{"step", 1000}}, "r", false));
  EXPECT_FALSE(std::filesystem::exists(scratch / "axonn.prom.partial"));
}

TEST(PrometheusFile, RefusesAPathThatItCannotWrite) {
  const Scratch scratch;
  EXPECT_THROW(PrometheusFile(scratch / "none/axonn.prom", "r"), BackendError);
}

TEST(PrometheusFile, OutlivesTheLossOfItsFolder) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "folder");
  PrometheusFile file(scratch / "folder/axonn.prom", "r");
  std::filesystem::remove_all(scratch / "folder");
  file.update({{"step", 1}});
  file.end();
  EXPECT_FALSE(std::filesystem::exists(scratch / "folder"));
}

}  // namespace
}  // namespace axonn
