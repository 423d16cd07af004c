#include "axonn/coconet/oracle/oracle.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "axonn/core/philox.hpp"
#include "coconet/oracle/oracle_settings.hpp"
#include "coconet/oracle/rank_values.hpp"
#include "support/user_error.hpp"

namespace axonn::coconet::test {
namespace {

using enum ElementType;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> counting(size_t count, double first = 1) {
  std::vector<double> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = first + static_cast<double>(i);
  return numbers;
}

struct PointwiseCase {
  Operation operation;
  std::vector<double> operands;
  double expected;
};

// Numbers by hand; those of exp, log, tanh and gelu from tables.
const PointwiseCase kPointwise[] = {
    {Operation::add, {1.5, 2}, 3.5},
    {Operation::subtract, {1.5, 2}, -0.5},
    {Operation::multiply, {1.5, 2}, 3},
    {Operation::divide, {1.5, 2}, 0.75},
    {Operation::negate, {1.5}, -1.5},
    {Operation::fma, {1.5, 2, 0.25}, 3.25},
    {Operation::power, {1.5, 2}, 2.25},
    {Operation::square_root, {2.25}, 1.5},
    {Operation::exponential, {1}, 2.718281828459045},
    {Operation::logarithm, {2}, 0.6931471805599453},
    {Operation::absolute, {-1.5}, 1.5},
    {Operation::maximum, {-1.5, 2}, 2},
    {Operation::maximum, {2, kNan}, kNan},
    {Operation::minimum, {-1.5, 2}, -1.5},
    {Operation::minimum, {kNan, 2}, kNan},
    {Operation::sign, {-0.25}, -1},
    {Operation::sign, {0}, 0},
    {Operation::sign, {kNan}, kNan},
    {Operation::tanh, {0.5}, 0.46211715726000975},
    {Operation::relu, {-1.5}, 0},
    {Operation::relu, {1.5}, 1.5},
    {Operation::sigmoid, {1}, 0.7310585786300049},
    {Operation::gelu, {1}, 0.8413447460685429},
    {Operation::gelu, {-2}, -0.04550026389635842},
    {Operation::less, {1, 2}, 1},
    {Operation::less, {2, 2}, 0},
    {Operation::less_equal, {2, 2}, 1},
    {Operation::less_equal, {3, 2}, 0},
    {Operation::greater, {3, 2}, 1},
    {Operation::greater, {2, 2}, 0},
    {Operation::greater_equal, {2, 2}, 1},
    {Operation::greater_equal, {1, 2}, 0},
    {Operation::equal, {2, 2}, 1},
    {Operation::equal, {1, 2}, 0},
    {Operation::not_equal, {1, 2}, 1},
    {Operation::not_equal, {2, 2}, 0},
    {Operation::select, {1, 3, 4}, 3},
    {Operation::select, {0, 3, 4}, 4},
    {Operation::select, {1, 3, kNan}, 3},
    {Operation::cast, {1.0 / 3}, 1.0 / 3},
};

TEST(Oracle, ComputesEveryElementByElementOperation) {
  std::set<Operation> seen = {Operation::dropout};  // has a test of its own
  for (const PointwiseCase& each : kPointwise) {
    SCOPED_TRACE(info(each.operation).name);
    seen.insert(each.operation);
    ProgramBuilder p("pointwise");
    OracleInputs inputs;
    std::vector<Expression> operands;
    for (const double number : each.operands) {
      const std::string name = "x" + std::to_string(operands.size());
      operands.push_back(p.tensor(name, fp32, {"N"}));
      inputs[name] = {{number}};
    }
    const bool selects = each.operation == Operation::select;
    if (selects) operands[0] = Expression::of(Operation::not_equal, {operands[0], 0.0});
    Expression root = Expression::of(each.operation, operands);
    if (info(each.operation).precedence == 1) root = select(root, 1, 0);
    const OracleResult result = run_oracle(p.returns({p.let("y", root)}), inputs, {.sizes = {{"N", 1}}});
    const double y = whole(result, "y")[0];
    EXPECT_FALSE(is_missing(y));
    EXPECT_EQ(std::isnan(y), std::isnan(each.expected));
    EXPECT_TRUE(std::isnan(y) || std::fabs(y - each.expected) < 1e-15) << y;
  }
  for (const OperationInfo& row : operations())
    EXPECT_EQ(seen.contains(row.operation), row.kind == OperationKind::pointwise) << row.name;
}

TEST(Oracle, BroadcastsAsPyTorch) {
  ProgramBuilder p("broadcasting");
  const auto x = p.tensor("x", fp32, {"M", 1}), y = p.tensor("y", fp32, {"N"}), s = p.scalar("s", 2);
  const Program program = p.returns({p.let("z", x * y + s * Expression::ranks())});
  for_each_setting({.sizes = {{"M", 2}, {"N", 3}}}, [&](const OracleOptions& options) {
    const OracleResult result = run_oracle(program, {{"x", {{10, 20}}}, {"y", {{1, 2, 3}}}}, options);
    const double r = 2 * options.ranks;
    EXPECT_EQ(whole(result, "z"), (std::vector<double>{10 + r, 20 + r, 30 + r, 20 + r, 40 + r, 60 + r}));
    EXPECT_EQ(result.outputs.at("z").extents, (Extents{2, 3}));
  });
}

TEST(Oracle, DropsByTheIndexInTheWholeOperand) {
  ProgramBuilder p("drop");
  const auto x = p.tensor("x", fp32, {"M", "N"}), y = p.tensor("y", fp32, {"M", "N"}, Distribution::sliced(0));
  const auto row = p.tensor("row", fp32, {"N"});
  const Program program = p.returns({p.let("a", dropout(x, 0.4, 7)), p.let("b", dropout(y, 0.4, 7)),
                                     p.let("c", slice(x, 1) * 0 + dropout(slice(row), 0.4, 8)),
                                     p.let("d", dropout(x, 0)), p.let("e", dropout(sqrt(-x), 0.4, 7))});
  for_each_setting({.sizes = {{"M", 3}, {"N", 7}}, .seed = 11, .step = 5}, [&](const OracleOptions& options) {
    const std::vector<double> numbers = counting(21), narrow = counting(7);
    const OracleResult result = run_oracle(program, {{"x", {numbers}}, {"y", {numbers}}, {"row", {narrow}}}, options);
    const auto factor = [](uint64_t i, uint32_t stream) {
      return philox(11, i / 4, 5, stream)[i % 4] * 0x1p-32 < 0.4 ? 0 : 1 / 0.6;
    };
    std::vector<double> expected, rows;
    for (uint64_t i = 0; i < 21; ++i) expected.push_back(numbers[i] * factor(i, 7));
    for (uint64_t i = 0; i < 21; ++i) rows.push_back(narrow[i % 7] * factor(i % 7, 8));
    expect_near(whole(result, "a"), expected);
    expect_near(whole(result, "b"), expected);
    expect_near(whole(result, "c"), rows);
    expect_near(whole(result, "d"), numbers);
    for (size_t i = 0; i < 21; ++i)  // dropped elements are zero, also a NaN
      EXPECT_EQ(std::isnan(whole(result, "e")[i]), expected[i] != 0 && numbers[i] != 0) << i;
    EXPECT_GT(std::ranges::count(expected, 0.0), 4);
  });
}

TEST(Oracle, ReducesDims) {
  ProgramBuilder p("reductions");
  const auto x = p.tensor("x", fp32, {"M", "N"});
  const Program program = p.returns(
      {p.let("sum", reduce_tensor(ReduceOp::sum, x)), p.let("rows", reduce_tensor(ReduceOp::sum, x, {1})),
       p.let("high", reduce_tensor(ReduceOp::max, x, {0})), p.let("low", reduce_tensor(ReduceOp::min, x, {0, 1})),
       p.let("length", norm(x)), p.let("lengths", norm(x, {1}))});
  const OracleResult result =
      run_oracle(program, {{"x", {{1, -7, 3, 4, -5, -6}}}}, {.ranks = 2, .sizes = {{"M", 2}, {"N", 3}}});
  EXPECT_EQ(whole(result, "sum"), (std::vector<double>{-10}));
  EXPECT_EQ(whole(result, "rows"), (std::vector<double>{-3, -7}));
  EXPECT_EQ(whole(result, "high"), (std::vector<double>{4, -5, 3}));
  EXPECT_EQ(whole(result, "low"), (std::vector<double>{-7}));
  expect_near(whole(result, "length"), {std::sqrt(136)});
  expect_near(whole(result, "lengths"), {std::sqrt(59), std::sqrt(77)});
  EXPECT_EQ(result.outputs.at("high").extents, (Extents{1, 3}));
}

TEST(Oracle, ReducesOwnSlicesOnly) {
  ProgramBuilder p("slices");
  const auto x = p.tensor("x", fp32, {"M", "N"}, Distribution::sliced(1)), row = p.tensor("row", fp32, {"N"}),
             column = p.tensor("column", fp32, {"M", 1});
  const auto part = p.let("part", reduce_tensor(ReduceOp::sum, x * x, {1})),
             high = p.let("high", reduce_tensor(ReduceOp::max, x));
  const Program program = p.returns(
      {part, p.let("sums", all_reduce(ReduceOp::sum, part)), p.let("highest", all_reduce(ReduceOp::max, high)),
       p.let("columns", reduce_tensor(ReduceOp::sum, x, {0})),
       p.let("own", all_reduce(ReduceOp::sum, reduce_tensor(ReduceOp::sum, slice(row)))),
       p.let("wide", all_reduce(ReduceOp::sum, reduce_tensor(ReduceOp::sum, slice(row) * column, {1})))});
  for_each_setting({.sizes = {{"M", 2}, {"N", 7}}}, [&](const OracleOptions& options) {
    const OracleInputs inputs = {{"x", {counting(14)}}, {"row", {counting(7)}}, {"column", {{1, 10}}}};
    const OracleResult result = run_oracle(program, inputs, options);
    EXPECT_EQ(whole(result, "own"), (std::vector<double>{28}));
    EXPECT_EQ(whole(result, "wide"), (std::vector<double>{28, 280}));
    EXPECT_EQ(whole(result, "sums"), (std::vector<double>{140, 1015 - 140}));
    EXPECT_EQ(whole(result, "highest"), (std::vector<double>{14}));
    EXPECT_EQ(whole(result, "columns"), (std::vector<double>{9, 11, 13, 15, 17, 19, 21}));
    EXPECT_EQ(std::ssize(result.outputs.at("part").parts), options.ranks);
    for (int rank = 0; rank < options.ranks; ++rank) {
      double own = 0;
      for (int i = 0; i < 7; ++i) own += options.cut.owner(i, 7, options.ranks) == rank ? (i + 1) * (i + 1) : 0;
      EXPECT_EQ(result.outputs.at("part").parts[static_cast<size_t>(rank)][0], own);
    }
  });
}

TEST(Oracle, CommunicatesWithinAGroup) {
  ProgramBuilder p("collectives");
  const auto g = p.tensor("g", fp32, {"N"}, Distribution::local());
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, g)), high = p.let("high", all_reduce(ReduceOp::max, g)),
             part = p.let("part", reduce_scatter(ReduceOp::min, g)), root = p.let("root", reduce(ReduceOp::sum, g)),
             back = p.let("back", all_gather(part)), again = p.let("again", broadcast(root)),
             loaded = p.let("loaded", load(high)), twice = p.let("twice", loaded + root);
  const Program program = p.returns({sum, high, part, root, back, again, twice});
  for_each_setting({.sizes = {{"N", 7}}}, [&](const OracleOptions& options) {
    OracleInputs inputs;
    for (int rank = 0; rank < options.ranks; ++rank) inputs["g"].push_back(counting(7, rank * rank));
    const OracleResult result = run_oracle(program, inputs, options);
    const int r = options.ranks, squares = (r - 1) * r * (2 * r - 1) / 6, last = (r - 1) * (r - 1);
    for (size_t i = 0; i < 7; ++i) {
      const auto place = static_cast<double>(i), total = r * place + squares;
      EXPECT_EQ(whole(result, "sum")[i], total);
      EXPECT_EQ(whole(result, "high")[i], last + place);
      EXPECT_EQ(whole(result, "part")[i], place);
      EXPECT_EQ(whole(result, "root")[i], total);
      EXPECT_EQ(whole(result, "back")[i], place);
      EXPECT_EQ(whole(result, "again")[i], total);
      EXPECT_EQ(whole(result, "twice")[i], total + last + place);
      EXPECT_EQ(result.outputs.at("part").givers[i], options.cut.owner(static_cast<int64_t>(i), 7, r));
    }
  });
}

TEST(Oracle, SendsToTheSameRankOfAnotherGroup) {
  ProgramBuilder p("border", 3);
  const auto x = p.tensor("x", fp32, {"N"}, Distribution::local()), y = p.tensor("y", fp32, {"N"}, {}, 2);
  const auto moved = p.let("moved", send(x, 2));
  const Program program = p.returns({moved, p.let("z", moved * y)});
  const OracleResult result =
      run_oracle(program, {{"x", {{1, 2}, {3, 4}}}, {"y", {{5, 6}}}}, {.ranks = 2, .sizes = {{"N", 2}}});
  EXPECT_EQ(result.outputs.at("z").parts, (std::vector<std::vector<double>>{{5, 12}, {15, 24}}));
}

TEST(Oracle, UpdatesInPlace) {
  ProgramBuilder p("updates");
  const auto w = p.tensor("w", fp32, {"N"}), m = p.tensor("m", fp32, {"N"}, Distribution::sliced(0));
  const auto before = p.let("before", w + 1), w1 = p.let("w1", update(w, 10 * w)), after = p.let("after", w1 + 1);
  p.let("m1", update(m, m * m));
  const Program program = p.returns({before, after});
  for_each_setting({.sizes = {{"N", 3}}}, [&](const OracleOptions& options) {
    const OracleResult result = run_oracle(program, {{"w", {{1, 2, 3}}}, {"m", {{4, 5, 6}}}}, options);
    EXPECT_EQ(whole(result, "before"), (std::vector<double>{2, 3, 4}));
    EXPECT_EQ(whole(result, "after"), (std::vector<double>{11, 21, 31}));
    ASSERT_EQ(result.states.size(), 2);
    EXPECT_EQ(result.states.at("w").parts[0], (std::vector<double>{10, 20, 30}));
    EXPECT_EQ(result.states.at("m").parts[0], (std::vector<double>{16, 25, 36}));
  });
}

// Each rank has the indices that the cut gives it, whatever their number.
TEST(Oracle, CutsUnevenDims) {
  const auto owners = [](const Cut& cut) {
    std::vector<int> result;
    for (int i = 0; i < 7; ++i) result.push_back(cut.owner(i, 7, 3));
    return result;
  };
  EXPECT_EQ(owners(Cut::contiguous()), (std::vector<int>{0, 0, 1, 1, 2, 2, 2}));
  EXPECT_EQ(owners(Cut::cyclic(1)), (std::vector<int>{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(owners(Cut::cyclic(2, 1)), (std::vector<int>{0, 1, 1, 2, 2, 0, 0}));
}

// `x` is sliced, and `f` sees of it only what its rank owns.
void expect_missing(const std::string& what, const std::function<Expression(Expression, Expression)>& f) {
  ProgramBuilder p("missing");
  const auto y = p.tensor("y", fp32, {"N"}), x = p.tensor("x", fp32, {"N"}, Distribution::sliced(0));
  ProgramParts parts = p.returns({p.let("z", y + 0)}).parts();
  parts.statements[0].expression = y * 0 + f(y, x);
  const Program program(parts, {.without = "distributions"});
  const OracleResult result =
      run_oracle(program, {{"y", {counting(4)}}, {"x", {counting(4)}}}, {.ranks = 2, .sizes = {{"N", 4}}});
  EXPECT_EQ(result.outputs.at("z").fault.substr(0, 17), "[0] is 1 on rank ") << what << result.outputs.at("z").fault;
  EXPECT_TRUE(is_missing(result.outputs.at("z").parts[0][2])) << what;
}

TEST(Oracle, NothingHidesAMissingElement) {
  expect_missing("max", [](auto y, auto x) { return Expression::of(Operation::maximum, {y, x}); });
  expect_missing("min", [](auto y, auto x) { return Expression::of(Operation::minimum, {y, x}); });
  expect_missing("condition", [](auto y, auto x) { return select(less(x, 100), y, 0); });
  expect_missing("branch", [](auto y, auto x) { return select(less(y, 100), y, x); });
  expect_missing("power", [](auto y, auto x) { return y * pow(x, 0); });
  expect_missing("dropout", [](auto y, auto x) { return y + 0 * dropout(x, 0.99); });
}

TEST(Oracle, CombinesMissingElementsToMissing) {
  for (const ReduceOp reduction : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
    EXPECT_TRUE(is_missing(combine(reduction, kNan, missing())));
    EXPECT_TRUE(is_missing(combine(reduction, missing(), 1)));
    EXPECT_EQ(combine(reduction, start_of(reduction), -5), -5);
  }
  EXPECT_FALSE(is_same(kNan, missing()));
  EXPECT_TRUE(is_same(kNan, -kNan));
}

// The part of a sum that a rank does not own, and a sum on another rank.
TEST(Oracle, SumsAreOnlyWhereTheyBelong) {
  for (const bool scattered : {true, false}) {
    ProgramBuilder p("sums");
    const auto g = p.tensor("g", fp32, {"N"}, Distribution::local()), w = p.tensor("w", fp32, {"N"});
    const auto x = p.let("x", scattered ? reduce_scatter(ReduceOp::sum, g) : reduce(ReduceOp::sum, g, 1));
    ProgramParts parts = p.returns({x}).parts();
    parts.statements.push_back({"y", w + x});
    parts.outputs = {"y"};
    const OracleResult result =
        run_oracle(Program(parts, {.without = "distributions"}), {{"g", {{1, 2}, {3, 4}}}, {"w", {{0, 0}}}},
                   {.ranks = 2, .sizes = {{"N", 2}}});
    EXPECT_EQ(result.outputs.at("y").fault,
              scattered ? "[0] is 4 on rank 0 and missing on rank 1" : "[0] is missing on rank 0 and 4 on rank 1");
  }
}

TEST(OracleErrors, NameWhatIsWrong) {
  ProgramBuilder p("sgd");
  const auto g = p.tensor("g", fp32, {"N"}, Distribution::local()), rate = p.scalar("rate");
  const auto root = p.let("root", reduce(ReduceOp::sum, rate * g, 2));
  const Program program = p.returns({root});
  const OracleOptions good = {.ranks = 3, .sizes = {{"N", 1}}, .scalars = {{"rate", 2}}};
  const OracleInputs inputs = {{"g", {{1}, {2}, {3}}}};
  EXPECT_EQ(whole(run_oracle(program, inputs, good), "root"), (std::vector<double>{12}));
  const auto with = [&](auto change) {
    OracleOptions options = good;
    change(options);
    return run_oracle(program, inputs, options);
  };
  EXPECT_USER_ERROR(with([](auto& o) { o.ranks = 0; }), "at least one rank, got 0");
  EXPECT_USER_ERROR(with([](auto& o) { o.blocks = 0; }), "at least one block, got 0");
  EXPECT_USER_ERROR(with([](auto& o) { o.sizes = {}; }), "size N has no value");
  EXPECT_USER_ERROR(with([](auto& o) { o.scalars = {}; }), "scalar 'rate' has no value");
  EXPECT_USER_ERROR(with([](auto& o) { o.scalars["rat"] = 1; }), "declares no scalar 'rat'", "mean 'rate'");
  EXPECT_USER_ERROR(with([](auto& o) { o.ranks = 2; }), "is local, need 2 parts, got 3");
  EXPECT_USER_ERROR(
      run_oracle(program, {{"g", {{1}, {2}}}}, {.ranks = 2, .sizes = {{"N", 1}}, .scalars = good.scalars}),
      "'root' lies on rank 2, need one of 2 ranks");
  EXPECT_USER_ERROR(run_oracle(program, {}, good), "tensor 'g' has no value");
  EXPECT_USER_ERROR(run_oracle(program, {{"h", {{1}}}, {"g", inputs.at("g")}}, good), "declares no tensor 'h'");
  EXPECT_USER_ERROR(run_oracle(program, {{"g", {{1}, {2}, {3, 4}}}}, good), "'g' needs 1 elements, got 2");
}

OracleResult one(const std::string& name, std::vector<double> numbers) {
  OracleResult result;
  const auto count = std::ssize(numbers);
  result.outputs[name] = {Distribution::replicated(), {count}, {std::move(numbers)}, std::vector<int>(count), ""};
  return result;
}

TEST(OracleDifference, NamesTheFirst) {
  EXPECT_EQ(difference(one("x", {1, 2}), one("x", {1, 2.001}), 1e-2), "");
  EXPECT_EQ(difference(one("x", {1, 2}), one("x", {1, 2.5}), 1e-2), "output x[1] is 2 on rank 0 and 2.5 on rank 0");
  EXPECT_EQ(difference(one("x", {1e9}), one("x", {1e9 + 1}), 1e-8), "");
  EXPECT_EQ(difference(one("x", {kNan}), one("x", {kNan}), 0), "");
  EXPECT_EQ(difference(one("x", {1}), one("y", {1}), 0), "output y is only in the second");
  EXPECT_EQ(difference(one("x", {1}), {}, 0), "output x is only in the first");
  EXPECT_EQ(difference(one("x", {1}), one("x", {1, 1}), 0), "output x is replicated [1] and replicated [2]");
  EXPECT_NE(difference(one("x", {1}), one("x", {kNan}), 0), "");
  EXPECT_NE(difference(one("x", {INFINITY}), one("x", {-INFINITY}), 1), "");
  EXPECT_NE(difference(one("x", {INFINITY}), one("x", {1}), 1), "");
  OracleResult slices = one("x", {1, 2});
  slices.outputs["x"].distribution = Distribution::sliced(0);
  slices.outputs["x"].givers = {0, 1};
  EXPECT_EQ(difference(one("x", {1, 2}), slices, 0), "");
  EXPECT_EQ(difference(one("x", {1, 3}), slices, 0), "output x[1] is 3 on rank 0 and 2 on rank 1");
  slices.outputs["x"].distribution = Distribution::local();
  EXPECT_NE(difference(one("x", {1, 2}), slices, 0), "");
  OracleResult fault = one("x", {1});
  fault.outputs["x"].fault = "[0] is 1 on rank 0 and 2 on rank 1";
  EXPECT_EQ(difference(fault, fault, 1), "output x[0] is 1 on rank 0 and 2 on rank 1");
  OracleResult state;
  state.states = one("w", {1}).outputs;
  EXPECT_EQ(difference(state, {}, 0), "state w is only in the first");
}

}  // namespace
}  // namespace axonn::coconet::test
