#pragma once

#include <cstdint>
#include <ctime>
#include <span>
#include <string>
#include <string_view>

// Text for users: nearest names, counts with units, times.
namespace axonn {

// "; did you mean 'hidden'?" for the nearest candidate by edit distance, or "" when none is near.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

// 10737418 -> "10.7 M" (powers of 1000, for parameters, tokens per second, FLOPs).
std::string with_unit(double count);

// 1610612736 -> "1.50 GiB".
std::string bytes_text(double bytes);

// 112.4 -> "1:52"; 3700 -> "1:01:40".
std::string duration_text(double seconds);

// The clock at `when`, in local time: "14:05", or "02 Dec 14:05" if that is not the day of `now`.
std::string clock_text(std::time_t when, std::time_t now);

// The meaning of k, M and G: powers of 1000, or powers of 1024 for bytes and tokens.
enum class Suffixes : uint8_t { decimal, binary };

// "64k" -> 64000 or 65536. The number must be at least 0. `what` names the value in the UserError.
int64_t parse_count(std::string_view text, std::string_view what, Suffixes suffixes);

// 26214400 -> "25M": what parse_count() takes with binary suffixes.
std::string binary_count_text(int64_t count);

std::string_view trimmed(std::string_view text);  // without surrounding blanks and line ends

}  // namespace axonn
