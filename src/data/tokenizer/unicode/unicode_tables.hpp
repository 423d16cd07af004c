#pragma once

#include <cstdint>
#include <span>

// Tables of Unicode 16.0, written by scripts/unicode_tables.py.
namespace axonn::unicode_tables {

// Ranges of code points. Per range two numbers: how many code points lie between the end of the
// range before and its beginning, and how many it has.
// Upper has \p{Lu} and \p{Lt}, Lower has \p{Ll}.
extern const std::span<const uint32_t> kLetters, kUpper, kLower, kNumbers, kMarks, kWhite;

// The same with a third number: the canonical combining class, which is not 0.
extern const std::span<const uint32_t> kCombiningClasses;

// Per character three numbers: how far its code point is from the one before, and the two code
// points of its canonical decomposition. A second of 0: there is only one. NFC makes the characters
// of kComposed from their parts, and never those of kDecomposed. Hangul is in neither.
extern const std::span<const uint32_t> kComposed, kDecomposed;

}  // namespace axonn::unicode_tables
