// Every operation of the oracle beside LibTorch, or where it has none, beside a closed form. The
// oracle judges schedules and executors, so it must not be wrong in the same way as they.
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/coconet/oracle/oracle.hpp"
#include "coconet/language/typing.hpp"

namespace axonn::coconet {
namespace {

using Tensors = std::vector<at::Tensor>;
constexpr int kRanks = 3;
constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
const auto fp64 = ElementType::fp64;

std::set<Operation>& seen() {
  static std::set<Operation> operations;
  return operations;
}

std::vector<double> numbers_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kDouble).contiguous().view(-1);
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

// Numbers of both signs that differ from each other, of any shape.
at::Tensor some(at::IntArrayRef shape, int seed) {
  const int64_t count = at::empty(shape).numel();
  return (at::arange(count, at::kDouble) * 1.7 + seed).sin().mul(3).view(shape);
}

Shape shape_of(const at::Tensor& tensor) {
  Shape shape;
  for (const int64_t extent : tensor.sizes()) shape.emplace_back(extent);
  return shape;
}

// A program of one statement `y` on declared tensors. Local ones have a value per rank: their first
// dim.
struct OneStatement {
  ProgramBuilder program{"one", 2};
  OracleInputs inputs;
  Cut cut = Cut::contiguous();
  uint64_t seed = 1;

  Expression tensor(const at::Tensor& value, Distribution distribution = Distribution::replicated()) {
    const std::string name = "x" + std::to_string(inputs.size());
    const bool local = distribution.is(Placement::local);
    for (int rank = 0; rank < (local ? kRanks : 1); ++rank)
      inputs[name].push_back(numbers_of(local ? value[rank] : value));
    return program.tensor(name, fp64, shape_of(local ? value[0] : value), distribution);
  }

  OracleValue value(const Expression& root) {
    seen().insert(root.operation());
    const Program made = program.returns({program.let("y", root)});
    OracleOptions options{.ranks = kRanks, .sizes = {}, .cut = cut, .scalars = {}};
    options.seed = seed;
    const OracleResult result = run_oracle(made, inputs, options);
    const OracleValue& got = result.outputs.at("y");
    EXPECT_EQ(got.fault, "") << root.to_string();
    return got;
  }

  void expect(const Expression& root, const at::Tensor& expected) {
    const OracleValue got = value(root);
    const bool local = got.distribution.is(Placement::local);
    for (size_t part = 0; part < got.parts.size(); ++part) {
      const at::Tensor all = at::tensor(got.parts[part], at::kDouble);
      const at::Tensor need = (local ? expected[static_cast<int64_t>(part)] : expected).to(at::kDouble).reshape(-1);
      ASSERT_EQ(all.numel(), need.numel()) << root.to_string();
      EXPECT_TRUE(at::allclose(all, need, 1e-12, 1e-12, /*equal_nan=*/true)) << root.to_string() << "\n"
                                                                             << all << "\n"
                                                                             << need;
    }
  }
};

// Numbers of every kind.
at::Tensor special(int turn) {
  const std::vector<double> numbers = {-2, -1,   -0.5,      0,          0.25, 1,   3,   1e-3,
                                       50, -700, kInfinity, -kInfinity, kNan, 1e9, 0.5, 2};
  return at::tensor(numbers, at::kDouble).roll(turn);
}

using One = at::Tensor (*)(const at::Tensor&);
using Two = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

TEST(OracleBesideTorch, ComputesElements) {
  const std::pair<Operation, One> ones[] = {
      {Operation::negate, [](const at::Tensor& x) { return -x; }},
      {Operation::square_root, [](const at::Tensor& x) { return x.sqrt(); }},
      {Operation::exponential, [](const at::Tensor& x) { return x.exp(); }},
      {Operation::logarithm, [](const at::Tensor& x) { return x.log(); }},
      {Operation::absolute, [](const at::Tensor& x) { return x.abs(); }},
      {Operation::sign, [](const at::Tensor& x) { return at::where(x.isnan(), x, x.sign()); }},
      {Operation::tanh, [](const at::Tensor& x) { return x.tanh(); }},
      {Operation::relu, [](const at::Tensor& x) { return x.relu(); }},
      {Operation::gelu, [](const at::Tensor& x) { return at::where(x == -kInfinity, kNan, at::gelu(x)); }},
      {Operation::sigmoid, [](const at::Tensor& x) { return x.sigmoid(); }}};
  for (const auto& [operation, torch] : ones) {
    OneStatement run;
    run.expect(Expression::of(operation, {run.tensor(special(0))}), torch(special(0)));
  }
  const std::pair<Operation, Two> twos[] = {
      {Operation::add, [](const at::Tensor& x, const at::Tensor& y) { return x + y; }},
      {Operation::subtract, [](const at::Tensor& x, const at::Tensor& y) { return x - y; }},
      {Operation::multiply, [](const at::Tensor& x, const at::Tensor& y) { return x * y; }},
      {Operation::divide, [](const at::Tensor& x, const at::Tensor& y) { return x / y; }},
      {Operation::power, [](const at::Tensor& x, const at::Tensor& y) { return x.pow(y); }},
      {Operation::maximum, [](const at::Tensor& x, const at::Tensor& y) { return at::maximum(x, y); }},
      {Operation::minimum, [](const at::Tensor& x, const at::Tensor& y) { return at::minimum(x, y); }},
      {Operation::less, [](const at::Tensor& x, const at::Tensor& y) { return x < y; }},
      {Operation::less_equal, [](const at::Tensor& x, const at::Tensor& y) { return x <= y; }},
      {Operation::greater, [](const at::Tensor& x, const at::Tensor& y) { return x > y; }},
      {Operation::greater_equal, [](const at::Tensor& x, const at::Tensor& y) { return x >= y; }},
      {Operation::equal, [](const at::Tensor& x, const at::Tensor& y) { return x == y; }},
      {Operation::not_equal, [](const at::Tensor& x, const at::Tensor& y) { return x != y; }}};
  for (const auto& [operation, torch] : twos)
    for (int turn = 0; turn < 16; ++turn) {
      OneStatement run;
      const Expression both = Expression::of(operation, {run.tensor(special(0)), run.tensor(special(turn))});
      seen().insert(operation);
      run.expect(info(operation).precedence == 1 ? select(both, 1, 0) : both, torch(special(0), special(turn)));
    }
  OneStatement run;
  const at::Tensor x = some({4, 5}, 1), y = some({5}, 2), z = some({4, 1}, 3);
  run.expect(fma(run.tensor(x), run.tensor(y), run.tensor(z)), at::addcmul(z, x, y));
  OneStatement chosen;
  chosen.expect(select(less(chosen.tensor(x), 0.5), chosen.tensor(y), chosen.tensor(z)), at::where(x < 0.5, y, z));
  OneStatement kept;
  kept.expect(cast(kept.tensor(x), ElementType::bf16), x);  // the oracle rounds nothing
}

TEST(OracleBesideTorch, Reduces) {
  const at::Tensor x = some({4, 5, 3}, 4);
  for (const std::vector<int>& dims : std::vector<std::vector<int>>{{}, {0}, {1}, {2}, {0, 2}, {0, 1, 2}}) {
    std::vector<int64_t> all(dims.begin(), dims.end());
    if (all.empty()) all = {0, 1, 2};
    const auto check = [&](const std::function<Expression(Expression)>& root, const at::Tensor& expected) {
      OneStatement run;
      run.expect(root(run.tensor(x)), expected);
    };
    check([&](const Expression& a) { return reduce_tensor(ReduceOp::sum, a, dims); }, x.sum(all));
    check([&](const Expression& a) { return reduce_tensor(ReduceOp::max, a, dims); }, x.amax(all));
    check([&](const Expression& a) { return reduce_tensor(ReduceOp::min, a, dims); }, x.amin(all));
    check([&](const Expression& a) { return norm(a, dims); }, at::linalg_vector_norm(x, 2, all));
  }
}

TEST(OracleBesideTorch, RunsLayers) {
  OneStatement product;
  const at::Tensor x = some({2, 7, 5}, 5), w = some({5, 6}, 6);
  product.expect(matmul(product.tensor(x), product.tensor(w)), at::matmul(x, w));
  for (const auto& [tall, wide] : {std::pair(3, 1), {1, 3}, {3, 3}, {5, 1}}) {
    OneStatement convolution;
    const at::Tensor image = some({2, 3, 6, 5}, 7), kernel = some({4, 3, tall, wide}, 8);
    convolution.expect(conv2d(convolution.tensor(image), convolution.tensor(kernel)),
                       at::conv2d(image, kernel, {}, 1, {tall / 2, wide / 2}));
  }
}

TEST(OracleBesideTorch, Communicates) {
  const at::Tensor each = some({kRanks, 7, 2}, 9), whole = some({7, 2}, 10);
  const std::pair<ReduceOp, at::Tensor> reductions[] = {
      {ReduceOp::sum, each.sum(0)}, {ReduceOp::max, each.amax(0)}, {ReduceOp::min, each.amin(0)}};
  for (const Cut cut : {Cut::contiguous(), Cut::cyclic(2, 1)})
    for (const auto& [reduction, expected] : reductions) {
      const auto check = [&](const std::function<Expression(Expression)>& root) {
        OneStatement run;
        run.cut = cut;
        run.expect(root(run.tensor(each, Distribution::local())), expected);
      };
      check([&](const Expression& g) { return all_reduce(reduction, g); });
      check([&](const Expression& g) { return reduce_scatter(reduction, g); });
      check([&](const Expression& g) { return reduce(reduction, g, 2); });
      const auto back = [&](Distribution lies, const std::function<Expression(Expression)>& root) {
        OneStatement run;
        run.cut = cut;
        run.expect(root(run.tensor(whole, lies)), whole);
      };
      back(Distribution::sliced(0), [](const Expression& part) { return all_gather(part); });
      back(Distribution::rooted(1), [](const Expression& part) { return broadcast(part); });
      back(Distribution::replicated(), [](const Expression& all) { return slice(all, 0); });
      back(Distribution::replicated(), [](const Expression& all) { return load(all, 2); });
      back(Distribution::replicated(), [](const Expression& all) { return send(all); });
    }
  OneStatement local;
  local.expect(send(local.tensor(each, Distribution::local())), each);
  OneStatement counted;
  seen().insert(Operation::ranks);
  counted.expect(counted.tensor(whole) * Expression::ranks(), whole * kRanks);
}

// The ranks' parts are those of tensor_split, where the cut is contiguous and the dim even.
TEST(OracleBesideTorch, GivesTheOwnersTheirParts) {
  const at::Tensor each = some({kRanks, 6, 2}, 11);
  const std::vector<at::Tensor> parts = each.sum(0).tensor_split(kRanks);
  OneStatement run;
  const OracleValue scattered = run.value(reduce_scatter(ReduceOp::sum, run.tensor(each, Distribution::local())));
  for (int rank = 0; rank < kRanks; ++rank)
    for (int64_t i = 0; i < parts[static_cast<size_t>(rank)].numel(); ++i) {
      const auto place = static_cast<size_t>(rank * 4 + i);
      EXPECT_EQ(scattered.givers[place], rank);
      EXPECT_NEAR(scattered.parts[0][place], parts[static_cast<size_t>(rank)].reshape(-1)[i].item<double>(), 1e-12);
    }
  OneStatement rooted;
  const OracleValue root = rooted.value(reduce(ReduceOp::sum, rooted.tensor(each, Distribution::local()), 2));
  for (const int giver : root.givers) EXPECT_EQ(giver, 2);
}

TEST(OracleBesideTorch, Updates) {
  OneStatement run;
  const at::Tensor w = some({4}, 12), x = some({4}, 13);
  const Expression target = run.tensor(w), other = run.tensor(x);
  const Program program = run.program.returns({run.program.let("y", update(target, 2 * target + other))});
  seen().insert(Operation::update);
  const OracleResult result = run_oracle(program, run.inputs, {.ranks = kRanks});
  EXPECT_TRUE(at::allclose(at::tensor(result.states.at("x0").parts[0], at::kDouble), 2 * w + x, 1e-12));
}

// The share of zeros, the factor of the others, and other zeros for another seed and stream.
TEST(OracleBesideTorch, Drops) {
  constexpr int64_t kCount = 40'000;
  const at::Tensor x = some({kCount}, 14);
  std::set<std::vector<double>> masks;
  for (const double p : {0.1, 0.5})
    for (const int64_t stream : {0, 1})
      for (const uint64_t seed : {1, 2}) {
        OneStatement run;
        run.seed = seed;
        const at::Tensor y = at::tensor(run.value(dropout(run.tensor(x), p, stream)).parts[0], at::kDouble);
        const at::Tensor kept = y != 0;
        EXPECT_TRUE(at::allclose(y, at::where(kept, x / (1 - p), 0), 1e-12));
        const double share = 1 - kept.to(at::kDouble).mean().item<double>();
        EXPECT_NEAR(share, p, 4 * std::sqrt(p * (1 - p) / kCount));
        EXPECT_TRUE(masks.insert(numbers_of(kept)).second);
      }
}

TEST(OracleBesideTorch, LeavesNoOperationOut) {
  std::set<Operation> all = {Operation::reference, Operation::constant};
  all.insert(seen().begin(), seen().end());
  for (const OperationInfo& row : operations()) EXPECT_TRUE(all.contains(row.operation)) << row.name;
}

}  // namespace
}  // namespace axonn::coconet
