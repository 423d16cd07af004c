#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "axonn/core/utf8.hpp"

namespace axonn::fuzz {

// Random choices that are the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  size_t below(size_t limit) { return static_cast<size_t>(engine_() % limit); }
  size_t from(size_t least, size_t most) { return least + below(most - least + 1); }
  bool one_in(size_t times) { return below(times) == 0; }
  char byte() { return static_cast<char>(engine_()); }

 private:
  std::mt19937_64 engine_;
};

inline uint64_t variable(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Calls `round` with other random choices each time. AXONN_TEST_FUZZ=20 makes 20 times as many
// rounds, AXONN_TEST_FUZZ_SECONDS=150 as many as that time allows, and AXONN_TEST_SEED begins
// elsewhere: a round's seed that failed, to see only that one.
inline void rounds(uint64_t count, const std::function<void(Random&)>& round) {
  using Clock = std::chrono::steady_clock;
  const uint64_t first = variable("AXONN_TEST_SEED", 1), all = count * variable("AXONN_TEST_FUZZ", 1),
                 seconds = variable("AXONN_TEST_FUZZ_SECONDS", 0);
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  uint64_t done = 0;
  for (; seconds > 0 ? Clock::now() < end : done < all; ++done) {
    SCOPED_TRACE("AXONN_TEST_SEED=" + std::to_string(first + done));
    Random random(first + done);
    round(random);
    if (testing::Test::HasFailure()) return;
  }
  if (seconds > 0) std::printf("[  INPUTS  ] %llu\n", static_cast<unsigned long long>(done));
}

// Whether a reader took its input. If not, its UserError is a sentence that a terminal can show.
inline bool read(const std::function<void()>& action) {
  try {
    action();
    return true;
  } catch (const UserError& error) {
    EXPECT_FALSE(error.sentence().empty());
    EXPECT_FALSE(first_invalid_utf8(error.sentence())) << error.sentence();
    return false;
  }
}

// Changes a few bytes: flips, removes, repeats and inserts them.
inline std::string mutated(std::string bytes, Random& random) {
  for (size_t changes = random.from(1, 6); changes > 0; --changes) {
    const size_t at = random.below(bytes.size() + 1),
                 length = random.below(std::min<size_t>(16, bytes.size() - at) + 1);
    switch (random.below(6)) {
      case 0:
        bytes.erase(at, length);
        break;
      case 1:
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 2:
        bytes.insert(at, random.from(1, 8), random.byte());
        break;
      case 3:
        bytes.resize(at);
        break;
      default:
        if (at < bytes.size())
          bytes[at] = random.one_in(2) ? random.byte() : static_cast<char>(bytes[at] ^ 1 << random.below(8));
    }
  }
  return bytes;
}

// Another number, where one stands in a text of JSON.
inline std::string with_another_value(std::string text, Random& random) {
  static const std::vector<std::string> kValues = {"0",
                                                   "-1",
                                                   "1",
                                                   "7",
                                                   "1.5",
                                                   "1e999",
                                                   "2147483648",
                                                   "4294967296",
                                                   "9223372036854775807",
                                                   "18446744073709551615",
                                                   "null",
                                                   "true",
                                                   "[]",
                                                   "{}",
                                                   "\"\"",
                                                   "\"x\"",
                                                   "[0, 1]",
                                                   "[9223372036854775807, 9223372036854775807]",
                                                   std::string(300'000, '[') + std::string(300'000, ']')};
  constexpr std::string_view kDigits = "0123456789";
  const size_t begin = text.find_first_of(kDigits, random.below(text.size()));
  if (begin == std::string::npos) return text;
  const size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
  return text.replace(begin, end - begin, kValues[random.below(kValues.size())]);
}

// Other numbers and, in half of the cases, other bytes of a text of JSON.
inline std::string changed(std::string text, Random& random) {
  for (size_t values = random.below(3); values > 0; --values) text = with_another_value(text, random);
  return random.one_in(2) ? mutated(text, random) : text;
}

}  // namespace axonn::fuzz
