#include "coconet/text/expression_parser.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "coconet/language/words.hpp"

namespace axonn::coconet {
namespace {

// Twice the depth of an expression: its text has a parenthesis for each operation.
constexpr int kMostNesting = 2 * Expression::kMostDepth + 2;

struct NamedSetting {
  std::string_view name;
  Attribute attribute;
};
constexpr std::array<NamedSetting, 4> kNamedSettings = {
    {{"dim", Attribute::dim}, {"dims", Attribute::dims}, {"root", Attribute::root}, {"stream", Attribute::stream}}};

bool takes(const OperationInfo& row, Attribute attribute) { return std::ranges::count(row.attributes, attribute) > 0; }

const OperationInfo* infix_operator(const Lexer& lexer) {
  const auto found = std::ranges::find_if(operations(), [&](const OperationInfo& row) {
    return row.precedence > 0 && row.operands == 2 && row.operation != Operation::power && lexer.is(row.name);
  });
  return found == operations().end() ? nullptr : &*found;
}

bool is_call(const OperationInfo& row) { return row.precedence == 0 && row.kind != OperationKind::leaf; }

std::string no_operation(std::string_view name) {
  std::vector<std::string_view> names;
  for (const OperationInfo& row : operations())
    if (is_call(row)) names.push_back(row.name);
  return detail::concatenate("there is no operation '", name, "'",
                             did_you_mean(name, std::span<const std::string_view>(names)));
}

}  // namespace

Expression ExpressionParser::made(const Token& at, Operation operation, std::vector<Expression> operands,
                                  const Attributes& attributes) {
  return lexer_.in_place(at, [&] { return Expression::of(operation, std::move(operands), attributes); });
}

Expression ExpressionParser::infix(int least_precedence) {
  Expression left = prefix();
  const OperationInfo* row = infix_operator(lexer_);
  while (row != nullptr && row->precedence >= least_precedence) {
    const Token sign = lexer_.take();
    const Expression right = infix(row->precedence + 1);
    left = made(sign, row->operation, {left, right});
    const OperationInfo* next = infix_operator(lexer_);
    if (row->precedence == 1 && next != nullptr && next->precedence == 1)
      lexer_.fail(lexer_.token(), "comparisons do not chain: use parentheses");
    row = next;
  }
  return left;
}

Expression ExpressionParser::prefix() {
  const Token first = lexer_.token();
  if (++nesting_ > kMostNesting)
    lexer_.fail(first, detail::concatenate("parentheses, signs and powers must nest at most ", kMostNesting, " deep"));
  const bool negative = lexer_.take_if("-");
  const Expression read = negative ? prefix() : power();
  --nesting_;
  return negative ? made(first, Operation::negate, {read}) : read;
}

Expression ExpressionParser::power() {
  const Expression base = primary();
  const Token sign = lexer_.token();
  if (!lexer_.take_if("^")) return base;
  const Expression exponent = prefix();
  return made(sign, Operation::power, {base, exponent});
}

Expression ExpressionParser::primary() {
  const Token first = lexer_.token();
  if (first.kind == TokenKind::number) return {lexer_.expect_number("a number")};
  if (lexer_.take_if("(")) {
    const Expression inner = parse();
    lexer_.expect(")", detail::concatenate("to close '(' of line ", first.line));
    return inner;
  }
  if (first.kind == TokenKind::word && lexer_.next_token().text == "(") return call();
  if (lexer_.take_if(info(Operation::ranks).name)) return Expression::ranks();
  return Expression::reference(std::string(lexer_.expect_name("a value").text));
}

Expression ExpressionParser::call() {
  const Token name = lexer_.take();
  const auto found = std::ranges::find_if(
      operations(), [&](const OperationInfo& row) { return is_call(row) && row.name == name.text; });
  if (found == operations().end()) lexer_.fail(name, no_operation(name.text));
  lexer_.expect("(", "");
  Attributes attributes;
  std::set<Attribute> given;
  if (takes(*found, Attribute::reduction)) {
    attributes.reduction = lexer_.expect_named<ReduceOp>(detail::concatenate("the reduction of ", name.text));
    lexer_.expect(",", "after the reduction");
  }
  std::vector<Expression> read;
  operands(*found, read);
  while (lexer_.take_if(",")) setting(*found, attributes, given);
  for (const auto& [attribute, what] : {std::pair{Attribute::element, "an element type: cast(x, fp32)"},
                                        std::pair{Attribute::probability, "a probability: dropout(x, 0.1)"}})
    if (takes(*found, attribute) && !given.contains(attribute))
      lexer_.fail(lexer_.token(), detail::concatenate(name.text, " needs ", what));
  lexer_.expect(")", detail::concatenate("to close ", name.text, "( of line ", name.line));
  return made(name, found->operation, std::move(read), attributes);
}

void ExpressionParser::operands(const OperationInfo& row, std::vector<Expression>& read) {
  while (std::ssize(read) < row.operands) {
    if (!read.empty()) lexer_.expect(",", detail::concatenate("as ", row.name, " takes ", row.operands, " operands"));
    read.push_back(parse());
  }
}

void ExpressionParser::setting(const OperationInfo& row, Attributes& attributes, std::set<Attribute>& given) {
  const Token first = lexer_.token();
  if (first.kind == TokenKind::word && lexer_.next_token().text == "=") return named_setting(row, attributes, given);
  const auto is_new = [&](Attribute attribute) { return takes(row, attribute) && given.insert(attribute).second; };
  if (is_new(Attribute::element)) {
    attributes.element = lexer_.expect_named<ElementType>("an element type");
  } else if (is_new(Attribute::probability)) {
    attributes.probability = lexer_.expect_number("the probability");
  } else if (is_new(Attribute::group)) {
    attributes.group = group_offset();
  } else {
    lexer_.fail(first, detail::concatenate(row.name, " takes ", row.operands,
                                           row.operands == 1 ? " operand" : " operands", ", and settings by name"));
  }
}

void ExpressionParser::named_setting(const OperationInfo& row, Attributes& attributes, std::set<Attribute>& given) {
  const Token name = lexer_.take();
  std::vector<std::string_view> names;
  for (const NamedSetting& setting : kNamedSettings)
    if (takes(row, setting.attribute)) names.push_back(setting.name);
  if (std::ranges::count(names, name.text) == 0)
    lexer_.fail(name, detail::concatenate(row.name, " has no setting '", name.text, "'",
                                          did_you_mean(name.text, std::span<const std::string_view>(names))));
  const Attribute attribute = std::ranges::find(kNamedSettings, name.text, &NamedSetting::name)->attribute;
  if (!given.insert(attribute).second) lexer_.fail(name, detail::concatenate(name.text, " must be given only once"));
  lexer_.expect("=", "");
  if (attribute == Attribute::dim) attributes.dim = lexer_.expect_integer<int>("dim");
  if (attribute == Attribute::dims) attributes.dims = dims();
  if (attribute == Attribute::root) attributes.root = lexer_.expect_integer<int>("root");
  if (attribute == Attribute::stream) attributes.stream = lexer_.expect_integer<int64_t>("stream");
}

std::vector<int> ExpressionParser::dims() {
  lexer_.expect("[", "before the dims");
  std::vector<int> read;
  do read.push_back(lexer_.expect_integer<int>("a dim (no dims at all: leave dims= out)"));
  while (lexer_.take_if(","));
  lexer_.expect("]", "after the dims");
  return read;
}

// GroupRank(GROUP+1, RANK): 1.
int ExpressionParser::group_offset() {
  constexpr std::string_view kPlace = "in GroupRank(GROUP+1, RANK)";
  for (const std::string_view word : {"GroupRank", "(", "GROUP"}) lexer_.expect(word, kPlace);
  if (!lexer_.is("-")) lexer_.expect("+", kPlace);
  const int offset = lexer_.expect_integer<int>("the distance of groups");
  for (const std::string_view word : {",", "RANK", ")"}) lexer_.expect(word, kPlace);
  return offset;
}

}  // namespace axonn::coconet
