#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/coconet/language/element_type.hpp"
#include "axonn/coconet/language/operation.hpp"

namespace axonn::coconet {

// The settings of an operation. Only those that its OperationInfo lists have a meaning.
struct Attributes {
  ReduceOp reduction = ReduceOp::sum;
  int dim = 0;             // slice, reduce_scatter: the dim that is cut
  std::vector<int> dims;   // reduce_tensor, norm: the dims that become 1; empty: all, to a scalar
  int root = 0;            // reduce, load
  ElementType element{};   // cast
  double probability = 0;  // dropout: of zero
  int64_t stream = 0;      // dropout: two dropouts with one stream have one mask
  int group = 1;           // send: to this rank of group GROUP + group
  friend bool operator==(const Attributes&, const Attributes&) = default;
};

// An immutable tree of operations. Leaves are numbers, the number of ranks, and references to
// values by name. Programs hold one expression per statement; only a reference connects them.
class Expression {
 public:
  static constexpr int kMostDepth = 200;  // so that recursion over a tree fits every stack

  Expression(double number);  // NOLINT: 1 - beta reads as a formula; UserError if it is not finite
  static Expression reference(std::string name);
  static Expression ranks();  // the number of ranks in the group
  // UserError if the tree becomes deeper than kMostDepth: a part of it can be a statement instead.
  // Attributes that the operation does not list are dropped; the negative of a number is a number.
  static Expression of(Operation operation, std::vector<Expression> operands, const Attributes& attributes = {});

  Operation operation() const { return node_->operation; }
  const std::vector<Expression>& operands() const { return node_->operands; }
  const Attributes& attributes() const { return node_->attributes; }
  double number() const { return node_->number; }          // constant
  const std::string& name() const { return node_->name; }  // reference
  bool is(Operation operation) const { return node_->operation == operation; }
  bool is(OperationKind kind) const { return info(node_->operation).kind == kind; }

  // Calls `visit` with the name of every reference, from left to right.
  void for_each_reference(const std::function<void(const std::string&)>& visit) const;
  bool refers_to(std::string_view name) const;
  // The same tree with every reference replaced by what `replace` returns for its name.
  Expression with_references(const std::function<Expression(const std::string&)>& replace) const;

  std::string to_string() const;  // as program text: "w - lr * (m1 / sqrt(v1))"
  friend bool operator==(const Expression& a, const Expression& b);

 private:
  struct Node {
    Operation operation;
    std::vector<Expression> operands = {};
    Attributes attributes = {};
    double number = 0;
    std::string name = {};
    int depth = 1;
  };
  explicit Expression(Node node) : node_(std::make_shared<const Node>(std::move(node))) {}

  std::shared_ptr<const Node> node_;
};

Expression operator+(Expression a, Expression b);
Expression operator-(Expression a, Expression b);
Expression operator*(Expression a, Expression b);
Expression operator/(Expression a, Expression b);
Expression operator-(Expression a);

Expression pow(Expression base, Expression exponent);
Expression sqrt(Expression x);
Expression sign(Expression x);
Expression fma(Expression a, Expression b, Expression c);  // a * b + c, rounded once
Expression select(Expression condition, Expression yes, Expression no);
Expression less(Expression a, Expression b);
Expression cast(Expression x, ElementType element);
Expression dropout(Expression x, double probability, int64_t stream = 0);

Expression slice(Expression x, int dim = 0);
Expression load(Expression x, int root = 0);
Expression update(Expression tensor, Expression value);
Expression reduce_tensor(ReduceOp reduction, Expression x, std::vector<int> dims = {});
Expression norm(Expression x, std::vector<int> dims = {});  // square root of the sum of squares
Expression matmul(Expression x, Expression weight);         // [..., M, K] x [K, N]
Expression conv2d(Expression x, Expression weight);         // stride 1, output as large as the input

Expression all_reduce(ReduceOp reduction, Expression x);
Expression reduce_scatter(ReduceOp reduction, Expression x, int dim = 0);
Expression reduce(ReduceOp reduction, Expression x, int root = 0);
Expression all_gather(Expression x);
Expression broadcast(Expression x);
Expression send(Expression x, int group = 1);

}  // namespace axonn::coconet
