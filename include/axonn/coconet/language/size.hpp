#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace axonn::coconet {

// Numbers for the symbols of sizes: {{"B", 8}, {"H", 4096}}.
using SizeValues = std::map<std::string, int64_t, std::less<>>;

// The size of a dim before it is known: a factor times symbols, such as 1, N or 4*H. Two sizes are
// equal only if they are the same product, so no rule depends on the numbers of one run.
class Size {
 public:
  Size() = default;
  Size(int factor) : Size(int64_t{factor}) {}              // NOLINT: {"B", "S", 1} reads as a shape
  Size(const char* symbol) : Size(std::string(symbol)) {}  // NOLINT
  explicit Size(int64_t factor);
  explicit Size(std::string symbol);

  int64_t factor() const { return factor_; }
  const std::vector<std::string>& symbols() const { return symbols_; }  // sorted; H*H has H twice
  bool is_one() const { return factor_ == 1 && symbols_.empty(); }
  bool is_number() const { return symbols_.empty(); }

  // UserError if a symbol has no value or one below 1, or if the product needs more than 64 bits.
  int64_t value(const SizeValues& values) const;
  std::string to_string() const;  // "4*B*H"

  // UserError for a factor beyond 64 bits, or more than 16 symbols.
  friend Size operator*(const Size& a, const Size& b);
  friend bool operator==(const Size&, const Size&) = default;

 private:
  int64_t factor_ = 1;
  std::vector<std::string> symbols_;
};

// The global shape of a tensor. No dims: a scalar.
using Shape = std::vector<Size>;
using Extents = std::vector<int64_t>;

std::string to_string(const Shape& shape);  // "[B, S, 4*H]"
Extents extents_of(const Shape& shape, const SizeValues& values);
// The number of elements. UserError if it needs more than 64 bits.
int64_t count_of(const Extents& extents);

}  // namespace axonn::coconet
