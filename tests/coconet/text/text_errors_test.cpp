#include <array>

#include <gtest/gtest.h>

#include "axonn/coconet/text/program_text.hpp"
#include "support/user_error.hpp"

namespace axonn::coconet {
namespace {

struct Wrong {
  std::string_view text, message;
};

// After "program p\nsize N\ntensor g fp32 [N] local\n"; a message begins after "p.coco:4: ".
constexpr std::array kWrongLines = {
    Wrong{"tensr w fp32 [N] local",
          "expected NAME = EXPRESSION or a line that begins with program, groups, size, "
          "tensor, scalar, fuse, overlap or return, got 'tensr'; did you mean 'tensor'? "
          "(see column 1 of 'tensr w fp32 [N] local')"},
    Wrong{"program q", "expected the name of a statement, which is no word of the language, got 'program'"},
    Wrong{"on = g", "expected the name of a statement, which is no word of the language, got 'on'"},
    Wrong{"= g", "expected the name of a statement, got '='"},
    Wrong{"s", "expected NAME = EXPRESSION"},
    Wrong{"s =", "expected a value, got the end of the text (see column 4 of 's =')"},
    Wrong{"s =\nt = g", "expected a value, got the end of the line (see column 4 of 's =')"},
    Wrong{"s = g g", "expected the end of the line after the expression, got 'g' (see column 7 of 's = g g')"},
    Wrong{"s = g }", "expected the end of the line after the expression, got '}'"},
    Wrong{"s = tensor", "expected a value, which is no word of the language, got 'tensor'"},
    Wrong{"s = sqrt + 1", "expected a value, which is no word of the language, got 'sqrt'"},
    Wrong{"s = sqroot(g)", "there is no operation 'sqroot'; did you mean 'sqrt'? (see column 5 of 's = sqroot(g)')"},
    Wrong{"s = sqrt(g", "expected ')' to close sqrt( of line 4, got the end of the text"},
    Wrong{"s = sqrt()", "expected a value, got ')'"},
    Wrong{"s = sqrt(g, g)", "sqrt takes 1 operand, and settings by name (see column 13"},
    Wrong{"s = fma(g, g)", "expected ',' as fma takes 3 operands, got ')'"},
    Wrong{"s = (g + 1", "expected ')' to close '(' of line 4, got the end of the text"},
    Wrong{"s = g + * g", "expected a value, got '*'"},
    Wrong{"s = +g", "expected a value, got '+'"},
    Wrong{"s = g < 1 < 2", "comparisons do not chain: use parentheses (see column 11"},
    Wrong{"s = select(g == 1 != 2, g, g)", "comparisons do not chain"},
    Wrong{"s = cast(g)", "cast needs an element type: cast(x, fp32) (see column 11"},
    Wrong{"s = cast(g, fp8)",
          "an element type must be one of fp64, fp32, bf16, fp16, boolean, got 'fp8'; did you mean "},
    Wrong{"s = cast(g, fp32, fp32)", "cast takes 1 operand"},
    Wrong{"s = cast(g,", "expected an element type, got the end of the text"},
    Wrong{"s = dropout(g)", "dropout needs a probability: dropout(x, 0.1)"},
    Wrong{"s = dropout(g, p)", "expected the probability, got 'p'"},
    Wrong{"s = dropout(g, 0.1, 0.2)", "dropout takes 1 operand"},
    Wrong{"s = dropout(g, 0.1, steam=1)", "dropout has no setting 'steam'; did you mean 'stream'?"},
    Wrong{"s = dropout(g, 0.1, stream=1, stream=2)", "stream must be given only once"},
    Wrong{"s = dropout(g, 0.1, stream=0.5)", "expected stream, got '0.5'"},
    Wrong{"s = dropout(g, 0.1, stream=9223372036854775808)", "stream must be from -9223372036854775808 to "},
    Wrong{"s = sqrt(g, dim=0)", "sqrt has no setting 'dim'"},
    Wrong{"s = slice(g, dim=2147483648)", "dim must be from -2147483648 to 2147483647, got 2147483648 (see column 18"},
    Wrong{"s = norm(g, dims=0)", "expected '[' before the dims, got '0'"},
    Wrong{"s = norm(g, dims=[])", "expected a dim (no dims at all: leave dims= out), got ']'"},
    Wrong{"s = norm(g, dims=[0 1])", "expected ']' after the dims, got '1'"},
    Wrong{"s = all_reduce(mx, g)", "the reduction of all_reduce must be one of +, max, min, got 'mx'; did you mean"},
    Wrong{"s = all_reduce(g)", "the reduction of all_reduce must be one of +, max, min, got 'g'"},
    Wrong{"s = all_reduce(max g)", "expected ',' after the reduction, got 'g'"},
    Wrong{"s = send(g, 1)", "expected 'GroupRank' in GroupRank(GROUP+1, RANK), got '1'"},
    Wrong{"s = send(g, GroupRank(GROUP, RANK))", "expected '+' in GroupRank(GROUP+1, RANK), got ','"},
    Wrong{"s = send(g, GroupRank(GROUP+2147483648, RANK))", "the distance of groups must be from"},
    Wrong{"s = 1e999", "a number must fit into a double, got 1e999"},
    Wrong{"s = 1.", "a number must be written such as 12, 0.5 or 1e-3 (see column 5"},
    Wrong{"s = 2x", "a number must be written such as 12, 0.5 or 1e-3"},
    Wrong{"s = 0x10", "a number must be written such as"},
    Wrong{"s = 1e+", "a number must be written such as"},
    Wrong{"s = .5", "no program has the byte 46, '.', here"},
    Wrong{"s = g; t = g", "no program has the byte 59, ';', here: use letters, digits and ()[]{},=+-*/^<>!"},
    Wrong{"s = g ! g", "no program has the byte 33, '!', here"},
    Wrong{"s = g \x01\xff",
          "no program has the byte 1 here: use letters, digits and ()[]{},=+-*/^<>! "
          "(see column 7 of 's = g ?"
          "?')"},
    Wrong{"s. = g", "a name must have at most 100 characters and no dot at its end"},
    Wrong{"groups 0", "the number of groups must be from 1 to 65536, got 0"},
    Wrong{"groups 2\ngroups 2", "groups must be given only once"},
    Wrong{"size N", "size N must be declared only once (see column 6 of 'size N')"},
    Wrong{"size K, K", "size K must be declared only once (see column 9 of 'size K, K')"},
    Wrong{"size 4", "expected the name of a size, got '4'"},
    Wrong{"size M N", "expected the end of the line after the sizes, got 'N'"},
    Wrong{"tensor w f32 [N] local",
          "an element type must be one of fp64, fp32, bf16, fp16, boolean, got 'f32'; did "
          "you mean 'fp32'?"},
    Wrong{"tensor w fp32 N local", "expected '[' before the sizes of the tensor, got 'N'"},
    Wrong{"tensor w fp32 [N local", "expected ']' after the sizes of the tensor, got 'local'"},
    Wrong{"tensor w fp32 [0] local", "a size must be from 1 to 9223372036854775807, got 0"},
    Wrong{"tensor w fp32 [-N] local", "expected a size, got 'N'"},
    Wrong{"tensor w fp32 [N, 4294967296*4294967296] local",
          "size 4294967296*4294967296 needs more than 64 bits (see column"},
    Wrong{"tensor w fp32 [N*N*N*N*N*N*N*N*N*N*N*N*N*N*N*N*N] local", "a size has at most 16 symbols, got 17"},
    Wrong{"tensor w fp32 [N] slced(0)",
          "a tensor's distribution must be one of local, replicated, sliced, rooted, got "
          "'slced'; did you mean 'sliced'?"},
    Wrong{"tensor w fp32 [N]", "expected a tensor's distribution, got the end of the text"},
    Wrong{"tensor w fp32 [N] sliced", "expected '(' after the distribution, got the end of the text"},
    Wrong{"tensor w fp32 [N] rooted(r)", "expected a dim or rank, got 'r'"},
    Wrong{"tensor w fp32 [N] local on -1", "the group of a tensor must be from 0 to 2147483647, got -1"},
    Wrong{"tensor w fp32 [N] local 1", "expected the end of the line after the tensor's distribution and group"},
    Wrong{"scalar lr = beta", "expected a number, got 'beta'"},
    Wrong{"scalar lr 0.1", "expected the end of the line after the scalar, got '0.1'"},
    Wrong{"fuse f\n}", "expected '{' after the section's name, got the end of the line"},
    Wrong{"fuse f { s = g }", "expected the end of the line after '{', got 's'"},
    Wrong{"fuse max {\n}", "expected the name of a section, which is no word of the language, got 'max'"},
    Wrong{"return g 1", "expected the end of the line after what is returned, got '1'"},
    Wrong{"return", "expected the name of a statement, got the end of the text"},
};

TEST(TextErrors, NameTheLineAndWhatWasExpected) {
  for (const Wrong& wrong : kWrongLines) {
    SCOPED_TRACE(wrong.text);
    const std::string text = "program p\nsize N\ntensor g fp32 [N] local\n" + std::string(wrong.text);
    const bool second = wrong.text == "groups 2\ngroups 2";
    EXPECT_USER_ERROR(parse_program(text, "p.coco"),
                      (second ? "p.coco:5: " : "p.coco:4: ") + std::string(wrong.message));
  }
}

TEST(TextErrors, OfWholePrograms) {
  const auto parse = [](std::string_view text) { return parse_program(text, "p.coco"); };
  EXPECT_USER_ERROR(parse(""), "p.coco:1: expected 'program' and a name in the first line, got the end of the text");
  EXPECT_USER_ERROR(parse("size N"), "p.coco:1: expected 'program' and a name in the first line, got 'size'");
  EXPECT_USER_ERROR(parse("program"), "p.coco:1: expected the program's name, got the end of the text");
  EXPECT_USER_ERROR(parse("program a b"), "p.coco:1: expected the end of the line after the program's name, got 'b'");
  EXPECT_USER_ERROR(parse("program p\nfuse f {\ns = g\n"),
                    "p.coco:4: expected '}' to close '{' of line 2, got the end of the text");
  EXPECT_USER_ERROR(parse("program p\noverlap o {\nreturn s\n"),
                    "p.coco:3: expected the name of a statement, which is");
  EXPECT_USER_ERROR(parse("program p\noverlap o {\nfuse f {\nfuse h {"),
                    "p.coco:4: sections must lie at most two deep in each other");
  EXPECT_USER_ERROR(parse("program p\ns = 1\nreturn s\nt = 1"),
                    "p.coco:4: expected nothing after `return` except `schedule`, got 't'");
  EXPECT_USER_ERROR(parse("program p\ntensor g fp32 [8] local\nx = sqrt(g\ny = g\nreturn y"),
                    "p.coco:4: expected ')' to close sqrt( of line 3, got 'y'");
}

TEST(TextErrors, OfRulesNameFileAndLine) {
  const auto parse = [](std::string_view lines) {
    return parse_program("program p\ntensor g fp32 [8] local\n" + std::string(lines), "p.coco");
  };
  EXPECT_USER_ERROR(parse("\ns = all_gather(g)\nreturn s"), "p.coco: s = all_gather(g), line 4: all_gather takes");
  EXPECT_USER_ERROR(parse("tensor w fp32 [N] local\ns = g\nreturn s"),
                    "p.coco: w, line 3: size N is not declared: add a line 'size N', got fp32 [N] local");
  EXPECT_USER_ERROR(parse("scalar g\ns = g\nreturn s"), "p.coco: p, line 3: a name has", "got 'g' (rule names)");
  EXPECT_USER_ERROR(parse("fuse f {\ns = g + 1\n}\nreturn s"), "p.coco: fuse f, line 3: a section has two members");
  EXPECT_USER_ERROR(parse("s = g\nreturn s, s"), "p.coco: p, return, line 4: a program returns", "'s'");
  EXPECT_USER_ERROR(parse("return g"), "p.coco: p, return, line 3: a program returns", "'g'");
}

TEST(TextErrors, OfExpressions) {
  EXPECT_USER_ERROR(parse_expression(""),
                    "expression:1: expected a value, got the end of the text (see column 1 of '')");
  EXPECT_USER_ERROR(parse_expression("a, b"), "expression:1: expected the end of the expression, got ','");
  EXPECT_USER_ERROR(parse_expression("a\n+ b"), "expression:2: expected the end of the expression, got '+'");
}

TEST(TextErrors, ShowOnlyAPartOfALongLine) {
  const std::string error = test::user_error([] { parse_expression(std::string(300, 'a') + " + 1"); });
  EXPECT_EQ(error, "expression:1: a name must have at most 100 characters and no dot at its end (see column 1 of '" +
                       std::string(80, 'a') + "...')");
  const std::string far = test::user_error([] { parse_expression("1" + std::string(200, ' ') + "a"); });
  EXPECT_EQ(far, "expression:1: expected the end of the expression, got 'a' (see column 202 of '..." +
                     std::string(40, ' ') + "a')");
}

std::string repeated(std::string_view part, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += part;
  return text;
}

TEST(TextErrors, LimitDepthAndLength) {
  for (const std::string_view open : {"(", "sqrt(", "-", "a ^ ", "fma(a, a, "})
    EXPECT_USER_ERROR(parse_expression(repeated(open, 10000) + "a"), "must nest at most 402 deep (see column");
  EXPECT_EQ(parse_expression(repeated("(", 300) + "a" + repeated(")", 300)), Expression::reference("a"));
  EXPECT_USER_ERROR(parse_expression("a" + repeated(" + a", 10000)), "expression:1: an expression is at most 200");
  EXPECT_USER_ERROR(parse_program("program p\n" + repeated("fuse f {\n", 10000), "p"), "at most two deep");
  std::string names = "program p\n";
  for (int i = 0; i < 2001; ++i) names += "s" + std::to_string(i) + " = 1\n";
  EXPECT_USER_ERROR(parse_program(names, "p"), "p: a program has at most 2000 sizes, declarations, statements", "2001");
  EXPECT_USER_ERROR(parse_program(std::string((size_t{1} << 20) + 1, '#'), "p"),
                    "p: a program's text has at most "
                    "1048576 bytes, got 1048577");
}

TEST(TextErrors, TheDeepestExpressionsAreReadBack) {
  const Expression a = Expression::reference("a");
  Expression sum = a, signs = a, calls = a, powers = a;
  for (int i = 1; i < Expression::kMostDepth; ++i) {
    sum = a - sum;
    signs = i % 2 == 0 ? -signs : signs + a;
    calls = sqrt(calls);
    powers = i % 2 == 0 ? pow(a, powers) : pow(powers, a);
  }
  for (const Expression& deepest : {sum, signs, calls, powers}) {
    EXPECT_EQ(parse_expression(deepest.to_string()), deepest);
    EXPECT_USER_ERROR(-deepest, "at most 200 operations deep: make a statement of a part of it");
  }
}

}  // namespace
}  // namespace axonn::coconet
