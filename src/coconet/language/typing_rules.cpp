#include "coconet/language/typing_rules.hpp"

#include <iterator>
#include <span>

#include "coconet/language/typing.hpp"

namespace axonn::coconet {
namespace {

constexpr Rule kRules[] = {
    {"element-types", "operands have one element type: cast(x, TYPE) converts", "CoCoNet, rule E-BinaryOp"},
    {"booleans", "a comparison is only for select()", "no tensor in memory is boolean"},
    {"shapes", "shapes broadcast: from the last dim on, sizes are equal or 1", "PyTorch, broadcasting semantics"},
    {"distributions",
     "operands have one distribution, or one is whole on every rank and the other local, or sliced on a dim that the "
     "first has one element of: slice(x, dim=D) or load(x, root=R) takes a part",
     "CoCoNet, section 2.1: pointwise computations"},
    {"groups", "operands lie in one group of ranks: send(x, GroupRank(GROUP+1, RANK)) moves a tensor",
     "CoCoNet, section 4: pipeline parallelism"},
    {"probability", "the probability of dropout is at least 0 and less than 1", "1 / (1 - p) scales what stays"},
    {"slice", "slice takes a replicated tensor and one of its dims that is not 1", "CoCoNet, rule E-Scatter"},
    {"load", "load takes a replicated tensor and a rank", "CoCoNet, LoadTensorAtRank"},
    {"update", "update takes a declared tensor and a value of its type", "CoCoNet, section 3.1: Update"},
    {"reduced-dims", "a reduction names dims of its operand, each once", "CoCoNet, rule E-ReduceTensor"},
    {"norm", "a norm needs the whole of its dims: of slices write sqrt(all_reduce(+, reduce_tensor(+, x * x)))",
     "norms of parts do not add up"},
    {"matmul-shapes", "matmul takes [..., M, K] and [K, N]", "matrix product"},
    {"matmul-distributions",
     "matmul takes whole operands, K sliced in both, N sliced in the weight, or rows sliced in x",
     "CoCoNet, section 2.2: product of two sliced tensors is local"},
    {"conv2d-shapes", "conv2d takes [N, C, H, W] and [O, C, K, L] with odd numbers K and L", "stride 1, same size"},
    {"conv2d-distributions", "conv2d takes whole operands, C sliced in both, O sliced in the weight, or N sliced in x",
     "CoCoNet, section 2.2; slices of H or W would need their neighbours' edges"},
    {"all-reduce", "all_reduce takes a local tensor", "CoCoNet, rule E-AllReduce"},
    {"reduce-scatter", "reduce_scatter takes a local tensor and one of its dims that is not 1",
     "CoCoNet, rule E-ReduceScatter"},
    {"reduce", "reduce takes a local tensor and a rank", "CoCoNet, Reduce"},
    {"all-gather", "all_gather takes a sliced tensor", "CoCoNet, rule E-AllGather"},
    {"broadcast", "broadcast takes a tensor on one rank: reduce() or load() makes one", "CoCoNet, Broadcast"},
    {"send", "send moves a tensor to another group of the program", "CoCoNet, section 4: GroupRank"},
};
static_assert(std::size(kRules) == static_cast<size_t>(TypingRule::send) + 1);

}  // namespace

std::span<const Rule> typing_rules() { return kRules; }

const Rule& rule_of(TypingRule rule) { return kRules[static_cast<size_t>(rule)]; }

}  // namespace axonn::coconet
