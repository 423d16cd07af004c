#include "data/tokenizer/rewrite.hpp"

#include "data/tokenizer/unicode/nfc.hpp"

namespace axonn {
namespace {

std::optional<std::string> replaced(std::string_view text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  if (at == std::string_view::npos) return std::nullopt;
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  size_t copied = 0;
  for (; at != std::string_view::npos; at = text.find(from, copied)) {
    out.append(text, copied, at - copied).append(to);
    copied = at + from.size();
  }
  return std::move(out.append(text, copied));
}

std::optional<std::string> changed(std::string_view text, const Rewrite& rewrite, bool first) {
  switch (rewrite.kind) {
    case Rewrite::Kind::nfc:
      return nfc(text);
    case Rewrite::Kind::replace:
      return replaced(text, rewrite.from, rewrite.to);
    case Rewrite::Kind::prepend:
      break;
  }
  const bool there = rewrite.unless_there && text.starts_with(rewrite.to);
  if (text.empty() || there || (rewrite.only_first && !first)) return std::nullopt;
  return rewrite.to + std::string(text);
}

}  // namespace

std::optional<std::string> rewritten(std::string_view text, std::span<const Rewrite> rewrites, bool first) {
  std::optional<std::string> result;
  for (const Rewrite& rewrite : rewrites)
    if (auto next = changed(result ? std::string_view(*result) : text, rewrite, first)) result = std::move(next);
  return result;
}

}  // namespace axonn
