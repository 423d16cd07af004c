#include "axonn/coconet/language/operation.hpp"

#include <cmath>

#include "axonn/core/error.hpp"

namespace axonn::coconet {
namespace {

using enum Operation;
using Values = const double*;

double larger(double a, double b) { return a != a || a > b ? a : b; }
double smaller(double a, double b) { return a != a || a < b ? a : b; }

// The precedences are C's: comparison 1, sum 2, product 3, sign 4; power binds closest.
constexpr OperationInfo kOperations[] = {
    {reference, "", OperationKind::leaf, 0},
    {constant, "", OperationKind::leaf, 0},
    {ranks, "ranks", OperationKind::leaf, 0},

    {add, "+", OperationKind::pointwise, 2, {}, 2, [](Values x) { return x[0] + x[1]; }},
    {subtract, "-", OperationKind::pointwise, 2, {}, 2, [](Values x) { return x[0] - x[1]; }},
    {multiply, "*", OperationKind::pointwise, 2, {}, 3, [](Values x) { return x[0] * x[1]; }},
    {divide, "/", OperationKind::pointwise, 2, {}, 3, [](Values x) { return x[0] / x[1]; }},
    {negate, "-", OperationKind::pointwise, 1, {}, 4, [](Values x) { return -x[0]; }},
    {fma, "fma", OperationKind::pointwise, 3, {}, 0, [](Values x) { return x[0] * x[1] + x[2]; }},
    {power, "^", OperationKind::pointwise, 2, {}, 5, [](Values x) { return std::pow(x[0], x[1]); }},
    {square_root, "sqrt", OperationKind::pointwise, 1, {}, 0, [](Values x) { return std::sqrt(x[0]); }},
    {exponential, "exp", OperationKind::pointwise, 1, {}, 0, [](Values x) { return std::exp(x[0]); }},
    {logarithm, "log", OperationKind::pointwise, 1, {}, 0, [](Values x) { return std::log(x[0]); }},
    {absolute, "abs", OperationKind::pointwise, 1, {}, 0, [](Values x) { return std::fabs(x[0]); }},
    // A zero and a NaN stay what they are.
    {sign,
     "sign",
     OperationKind::pointwise,
     1,
     {},
     0,
     [](Values x) { return x[0] > 0   ? 1.0
                           : x[0] < 0 ? -1.0
                                      : x[0]; }},
    {maximum, "max", OperationKind::pointwise, 2, {}, 0, [](Values x) { return larger(x[0], x[1]); }},
    {minimum, "min", OperationKind::pointwise, 2, {}, 0, [](Values x) { return smaller(x[0], x[1]); }},
    {Operation::tanh, "tanh", OperationKind::pointwise, 1, {}, 0, [](Values x) { return std::tanh(x[0]); }},
    {relu, "relu", OperationKind::pointwise, 1, {}, 0, [](Values x) { return larger(x[0], 0); }},
    {gelu,
     "gelu",
     OperationKind::pointwise,
     1,
     {},
     0,
     [](Values x) { return 0.5 * x[0] * std::erfc(-x[0] * std::sqrt(0.5)); }},
    {sigmoid, "sigmoid", OperationKind::pointwise, 1, {}, 0, [](Values x) { return 1 / (1 + std::exp(-x[0])); }},
    {less, "<", OperationKind::pointwise, 2, {}, 1, [](Values x) { return x[0] < x[1] ? 1.0 : 0.0; }},
    {less_equal, "<=", OperationKind::pointwise, 2, {}, 1, [](Values x) { return x[0] <= x[1] ? 1.0 : 0.0; }},
    {greater, ">", OperationKind::pointwise, 2, {}, 1, [](Values x) { return x[0] > x[1] ? 1.0 : 0.0; }},
    {greater_equal, ">=", OperationKind::pointwise, 2, {}, 1, [](Values x) { return x[0] >= x[1] ? 1.0 : 0.0; }},
    {equal, "==", OperationKind::pointwise, 2, {}, 1, [](Values x) { return x[0] == x[1] ? 1.0 : 0.0; }},
    {not_equal, "!=", OperationKind::pointwise, 2, {}, 1, [](Values x) { return x[0] != x[1] ? 1.0 : 0.0; }},
    {select, "select", OperationKind::pointwise, 3, {}, 0, [](Values x) { return x[0] != 0 ? x[1] : x[2]; }},
    {cast, "cast", OperationKind::pointwise, 1, {Attribute::element}, 0, [](Values x) { return x[0]; }},
    {dropout, "dropout", OperationKind::pointwise, 1, {Attribute::probability, Attribute::stream}},

    {slice, "slice", OperationKind::part, 1, {Attribute::dim}},
    {load, "load", OperationKind::part, 1, {Attribute::root}},
    {update, "update", OperationKind::update, 2},
    {reduce_tensor, "reduce_tensor", OperationKind::reduction, 1, {Attribute::reduction, Attribute::dims}},
    {norm, "norm", OperationKind::reduction, 1, {Attribute::dims}},
    {matmul, "matmul", OperationKind::layer, 2},
    {conv2d, "conv2d", OperationKind::layer, 2},
    {all_reduce, "all_reduce", OperationKind::collective, 1, {Attribute::reduction}},
    {reduce_scatter, "reduce_scatter", OperationKind::collective, 1, {Attribute::reduction, Attribute::dim}},
    {reduce, "reduce", OperationKind::collective, 1, {Attribute::reduction, Attribute::root}},
    {all_gather, "all_gather", OperationKind::collective, 1},
    {broadcast, "broadcast", OperationKind::collective, 1},
    {send, "send", OperationKind::send, 1, {Attribute::group}},
};

}  // namespace

std::span<const OperationInfo> operations() { return kOperations; }

const OperationInfo& info(Operation operation) {
  const OperationInfo& row = kOperations[static_cast<size_t>(operation)];
  AXONN_ASSERT(row.operation == operation, "(the table of operations is in the enum's order)");
  return row;
}

}  // namespace axonn::coconet
