#include "axonn/coconet/language/size.hpp"

#include <algorithm>
#include <iterator>

#include "axonn/core/error.hpp"

namespace axonn::coconet {
namespace {

constexpr size_t kMostSymbols = 16;

}  // namespace

Size::Size(int64_t factor) : factor_(factor) {
  AXONN_CHECK(factor >= 1, "coconet.size", "a dim has at least one element, got ", factor);
}

Size::Size(std::string symbol) : symbols_{std::move(symbol)} {
  AXONN_CHECK(!symbols_.front().empty(), "coconet.size", "the symbol of a size needs a name");
}

int64_t Size::value(const SizeValues& values) const {
  int64_t product = factor_;
  for (const std::string& symbol : symbols_) {
    const auto found = values.find(symbol);
    AXONN_CHECK(found != values.end(), "coconet.size", "size ", symbol, " has no value: give it one");
    AXONN_CHECK(found->second >= 1, "coconet.size", "size ", symbol, " must be at least 1, got ", found->second);
    AXONN_CHECK(!__builtin_mul_overflow(product, found->second, &product), "coconet.size", "size ", to_string(),
                " needs more than 64 bits");
  }
  return product;
}

std::string Size::to_string() const {
  std::string text = factor_ == 1 && !symbols_.empty() ? "" : std::to_string(factor_);
  for (const std::string& symbol : symbols_) text.append(text.empty() ? "" : "*").append(symbol);
  return text;
}

Size operator*(const Size& a, const Size& b) {
  int64_t factor = 1;
  AXONN_CHECK(!__builtin_mul_overflow(a.factor_, b.factor_, &factor), "coconet.size", "size ", a.factor_, "*",
              b.factor_, " needs more than 64 bits");
  Size product(factor);
  std::ranges::merge(a.symbols_, b.symbols_, std::back_inserter(product.symbols_));
  AXONN_CHECK(product.symbols_.size() <= kMostSymbols, "coconet.size", "a size has at most ", kMostSymbols,
              " symbols, got ", product.symbols_.size());
  return product;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (const Size& size : shape) text.append(text.size() == 1 ? "" : ", ").append(size.to_string());
  return text + "]";
}

Extents extents_of(const Shape& shape, const SizeValues& values) {
  Extents extents;
  for (const Size& size : shape) extents.push_back(size.value(values));
  return extents;
}

int64_t count_of(const Extents& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) {
    if (!__builtin_mul_overflow(count, extent, &count)) continue;
    std::string product;
    for (const int64_t each : extents) product.append(product.empty() ? "" : "*").append(std::to_string(each));
    throw UserError("coconet.size", "a tensor has " + product +
                                        " elements, and their number needs more than 64 bits: give smaller sizes");
  }
  return count;
}

}  // namespace axonn::coconet
