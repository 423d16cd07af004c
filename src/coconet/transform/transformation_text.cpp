#include <algorithm>
#include <charconv>
#include <optional>

#include "axonn/coconet/transform/transformation.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"

namespace axonn::coconet {
namespace {

constexpr const char* kWhere = "coconet.transform";

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t comma = text.find(',');
    parts.push_back(trimmed(text.substr(0, comma)));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

bool is_name(std::string_view word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

// One line of a schedule, with its place for errors.
class Line {
 public:
  Line(std::string_view text, std::string place) : text_(text), place_(std::move(place)) {}

  Transformation parse() const {
    const size_t open = text_.find('(');
    check(open != std::string_view::npos && text_.back() == ')', "expected NAME(ARGUMENT, ...)");
    Transformation made;
    made.kind = parse_name<TransformationKind>(trimmed(text_.substr(0, open)), place_ + ": a transformation");
    for (const std::string_view word : split_at_commas(text_.substr(open + 1, text_.size() - open - 2)))
      add(made, word);
    check(!made.names.empty(), "expected a name in the parentheses");
    check(made.kind != TransformationKind::split || has_policy_,
          "split needs reduce_scatter, reduce or slice: split(x, reduce_scatter)");
    return made;
  }

 private:
  void check(bool holds, std::string_view message) const {
    AXONN_CHECK(holds, kWhere, place_, ": ", message, ", got '", text_, "'");
  }

  void add(Transformation& made, std::string_view word) const {
    const size_t equals = word.find('=');
    if (equals != std::string_view::npos) {
      const std::string_view key = trimmed(word.substr(0, equals));
      const bool known = made.kind == TransformationKind::split && (key == "dim" || key == "root");
      check(known, "only split takes dim= and root=");
      (key == "dim" ? made.dim : made.root) = number(trimmed(word.substr(equals + 1)));
    } else if (made.kind == TransformationKind::split && made.names.size() == 1) {
      made.policy = parse_name<SplitPolicy>(word, place_ + ": the policy of split");
      has_policy_ = true;
    } else {
      check(is_name(word), "expected names of values");
      check(made.kind != TransformationKind::split || made.names.empty(), "split takes one value");
      made.names.emplace_back(word);
    }
  }

  int number(std::string_view word) const {
    int value = -1;
    const auto end = std::from_chars(word.data(), word.data() + word.size(), value);
    check(end.ec == std::errc() && end.ptr == word.data() + word.size() && value >= 0,
          "dim= and root= take a number from 0 on");
    return value;
  }

  std::string_view text_;
  std::string place_;
  mutable bool has_policy_ = false;
};

}  // namespace

std::string Transformation::to_string() const {
  std::string text(axonn::to_string(kind));
  for (size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "(" : ", ") + names[i];
  if (names.empty()) text += "(";
  if (kind == TransformationKind::split) {
    text.append(", ").append(axonn::to_string(policy));
    if (policy == SplitPolicy::reduce && root != 0) text += ", root=" + std::to_string(root);
    if (policy != SplitPolicy::reduce && dim != 0) text += ", dim=" + std::to_string(dim);
  }
  return text + ")";
}

std::string to_text(std::span<const Transformation> log) {
  std::string text;
  for (const Transformation& transformation : log) text += transformation.to_string() + "\n";
  return text;
}

std::vector<Transformation> parse_transformations(std::string_view text, std::string_view file, int first_line,
                                                  std::string_view schedule) {
  const std::string part = schedule.empty() ? "" : detail::concatenate(": schedule ", schedule);
  std::vector<Transformation> log;
  for (int line = first_line; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view content = trimmed(row.substr(0, row.find('#')));
    if (content.empty()) continue;
    log.push_back(Line(content, detail::concatenate(file, ":", line, part)).parse());
    log.back().line = line;
  }
  return log;
}

Schedule& Schedule::apply(Transformation transformation) {
  program_ = coconet::apply(program_, transformation);
  log_.push_back(std::move(transformation));
  return *this;
}

Schedule& Schedule::split(std::string value, SplitPolicy policy, int dim_or_root) {
  const bool reduces = policy == SplitPolicy::reduce;
  return apply({.kind = TransformationKind::split,
                .names = {std::move(value)},
                .policy = policy,
                .dim = reduces ? 0 : dim_or_root,
                .root = reduces ? dim_or_root : 0});
}

namespace {

std::vector<std::string> joined(std::vector<std::string> first, std::vector<std::string> more) {
  first.insert(first.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return first;
}

}  // namespace

Schedule& Schedule::join(std::string value) { return apply({TransformationKind::join, {std::move(value)}}); }
Schedule& Schedule::reorder(std::string gather, std::vector<std::string> statements) {
  return apply({TransformationKind::reorder, joined({std::move(gather)}, std::move(statements))});
}
Schedule& Schedule::reorder_back(std::string gather, std::string part, std::vector<std::string> statements) {
  return apply({TransformationKind::reorder_back, joined({std::move(gather), std::move(part)}, std::move(statements))});
}
Schedule& Schedule::fuse(std::string name, std::vector<std::string> members) {
  return apply({TransformationKind::fuse, joined({std::move(name)}, std::move(members))});
}
Schedule& Schedule::overlap(std::string name, std::vector<std::string> members) {
  return apply({TransformationKind::overlap, joined({std::move(name)}, std::move(members))});
}
Schedule& Schedule::as_slice(std::string tensor) { return apply({TransformationKind::as_slice, {std::move(tensor)}}); }
Schedule& Schedule::dead(std::string value) { return apply({TransformationKind::dead, {std::move(value)}}); }

}  // namespace axonn::coconet
