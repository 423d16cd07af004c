#include <algorithm>
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "axonn/data/images/image_data.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

// The class of image i is i.
class Numbers : public ImageSource {
 public:
  explicit Numbers(int64_t count) : count_(count) {}
  int64_t count() const override { return count_; }
  int64_t size() const override { return 1; }
  std::vector<std::string> classes() const override { return {"one", "two"}; }
  int64_t read(int64_t index, std::span<uint8_t> pixels) const override {
    pixels[0] = static_cast<uint8_t>(index);
    return index;
  }
  uint64_t fingerprint() const override { return 7; }
  std::string description() const override { return "numbers"; }

 private:
  int64_t count_;
};

std::vector<int64_t> all_of(const ImageSource& source) {
  std::array<uint8_t, 3> pixel{};
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < source.count(); ++i) {
    numbers.push_back(source.read(i, pixel));
    EXPECT_EQ(pixel[0], static_cast<uint8_t>(numbers.back()));
  }
  return numbers;
}

TEST(HoldOut, PutsEveryImageInOneOfTwoParts) {
  for (const int64_t count : {2, 3, 10, 97, 256})
    for (const double fraction : {0.01, 0.1, 0.3, 0.5, 0.77}) {
      const auto held = std::llround(fraction * static_cast<double>(count));
      if (held == 0 || held == count) continue;
      const auto parts = hold_out(std::make_unique<Numbers>(count), fraction);
      const auto training = all_of(*parts.training), held_out = all_of(*parts.held_out);
      ASSERT_EQ(std::ssize(held_out), held);
      EXPECT_TRUE(std::ranges::is_sorted(training) && std::ranges::is_sorted(held_out));
      std::vector<int64_t> both = training;
      both.insert(both.end(), held_out.begin(), held_out.end());
      std::ranges::sort(both);
      EXPECT_EQ(both, all_of(Numbers(count))) << count << " " << fraction;
    }
}

TEST(HoldOut, SpreadsTheImagesEvenly) {
  const auto parts = hold_out(std::make_unique<Numbers>(1000), 0.01);
  const auto held_out = all_of(*parts.held_out);
  for (size_t i = 0; i < held_out.size(); ++i) EXPECT_EQ(held_out[i] / 100, static_cast<int64_t>(i));
  EXPECT_EQ(parts.training->classes().size(), 2u);
  EXPECT_EQ(parts.held_out->description(), "10 of numbers");
  EXPECT_NE(parts.training->fingerprint(), parts.held_out->fingerprint());
  EXPECT_NE(parts.training->fingerprint(), hold_out(std::make_unique<Numbers>(1000), 0.02).training->fingerprint());
}

TEST(HoldOut, LeavesNoPartEmpty) {
  for (const double fraction : {0.0, -0.1, 0.04, 0.96, 1.0, 2.0, std::nan("")})
    EXPECT_USER_ERROR(hold_out(std::make_unique<Numbers>(10), fraction), "of numbers leaves one part without an image");
}

}  // namespace
}  // namespace axonn
