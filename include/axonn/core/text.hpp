#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// Text for people: nearest names, counts with units, times.
namespace axonn {

// "; did you mean 'hidden'?" for the nearest candidate by edit distance, or "" when none is near.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

// 10737418 -> "10.7 M" (powers of 1000, for parameters, tokens a second, FLOPs).
std::string with_unit(double count);

// 1610612736 -> "1.50 GiB".
std::string bytes_text(double bytes);

// 112.4 -> "1:52"; 3700 -> "1:01:40".
std::string duration_text(double seconds);

// "64k" -> 65536, "4M" -> 4194304: k, M, G are powers of 1024. `what` names the value in the error.
int64_t parse_count(std::string_view text, std::string_view what);

}  // namespace axonn
