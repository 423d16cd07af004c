#pragma once

#include "axonn/coconet/language/dataflow.hpp"
#include "axonn/coconet/transform/transformation.hpp"

// The programs of CoCoNet's figures, and the schedules that its evaluation measures.
namespace axonn::coconet::figures {

// Adam on N elements, with bias correction and epsilon.
inline Program adam() {
  ProgramBuilder p("adam");
  const auto g = p.tensor("g", ElementType::fp32, {"N"}, Distribution::local()),
             w = p.tensor("w", ElementType::fp32, {"N"}), m = p.tensor("m", ElementType::fp32, {"N"}),
             v = p.tensor("v", ElementType::fp32, {"N"});
  const auto lr = p.scalar("lr", 1e-3), beta1 = p.scalar("beta1", 0.9), beta2 = p.scalar("beta2", 0.999),
             epsilon = p.scalar("epsilon", 1e-8), step = p.scalar("step", 1);
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, g));
  const auto m1 = p.let("m1", update(m, beta1 * m + (1 - beta1) * sum));
  const auto v1 = p.let("v1", update(v, beta2 * v + (1 - beta2) * sum * sum));
  const auto c1 = p.let("c1", 1 - pow(beta1, step)), c2 = p.let("c2", 1 - pow(beta2, step));
  return p.returns({p.let("w1", update(w, w - lr * (m1 / c1) / (sqrt(v1 / c2) + epsilon)))});
}

// The same with the gradient clipped to a norm of `most`.
inline Program clipped_adam() {
  ProgramBuilder p("clipped_adam");
  const auto g = p.tensor("g", ElementType::fp32, {"N"}, Distribution::local()),
             w = p.tensor("w", ElementType::fp32, {"N"}), m = p.tensor("m", ElementType::fp32, {"N"}),
             v = p.tensor("v", ElementType::fp32, {"N"});
  const auto lr = p.scalar("lr", 1e-3), beta1 = p.scalar("beta1", 0.9), beta2 = p.scalar("beta2", 0.999),
             epsilon = p.scalar("epsilon", 1e-8), most = p.scalar("most", 1);
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, g));
  const auto length = p.let("length", norm(sum));
  const auto scale = p.let("scale", Expression::of(Operation::minimum, {1, most / length}));
  const auto m1 = p.let("m1", update(m, beta1 * m + (1 - beta1) * (scale * sum)));
  const auto v1 = p.let("v1", update(v, beta2 * v + (1 - beta2) * (scale * sum) * (scale * sum)));
  return p.returns({p.let("w1", update(w, w - lr * m1 / (sqrt(v1) + epsilon)))});
}

inline Schedule ar_opt() { return Schedule(adam()).fuse("opt", {"m1", "v1", "w1"}); }

// Adam on slices; every rank keeps only its part of the moments.
inline Schedule rs_opt_ag() {
  Schedule schedule(adam());
  schedule.split("sum", SplitPolicy::reduce_scatter).reorder("sum", {"m1", "v1", "w1"});
  schedule.as_slice("m").as_slice("v").dead("m1.whole").dead("v1.whole");
  return schedule.fuse("opt", {"m1.part", "m1", "v1.part", "v1", "w1.part"});
}

inline Schedule fuse_rs_opt_ag() { return rs_opt_ag().fuse("fused", {"sum.part", "opt", "w1.whole", "w1"}); }

// Clipping needs every sum before the first update: two sections, and a number between them.
inline Schedule clipped_fuse() {
  Schedule schedule(clipped_adam());
  schedule.split("sum", SplitPolicy::reduce_scatter).reorder("sum", {"length", "m1", "v1", "w1"});
  schedule.as_slice("m").as_slice("v").dead("m1.whole").dead("v1.whole");
  schedule.fuse("sums", {"sum.part", "length.part"});
  return schedule.fuse("updates", {"m1.part", "m1", "v1.part", "v1", "w1.part", "w1.whole", "w1"});
}

// A row-parallel layer: every rank has a summand of the product; C is bias, dropout and residual.
inline Program row_parallel(ElementType type) {
  ProgramBuilder p("row_parallel");
  const auto x = p.tensor("x", type, {"M", "K"}, Distribution::local()),
             w = p.tensor("w", type, {"K", "H"}, Distribution::local()), bias = p.tensor("bias", type, {"H"}),
             residual = p.tensor("residual", type, {"M", "H"});
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, p.let("layer", matmul(x, w))));
  return p.returns({p.let("out", dropout(sum + bias, 0.3) + residual)});
}

// The same with the paper's operands, which are cut along the dim that the product sums.
inline Program self_attention(ElementType type) {
  ProgramBuilder p("self_attention");
  const auto in = p.tensor("in", type, {"B", "S", "K"}, Distribution::sliced(2)),
             w = p.tensor("w", type, {"K", "H"}, Distribution::sliced(0)), b = p.tensor("b", type, {"H"}),
             r = p.tensor("r", type, {"B", "S", "H"});
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, p.let("layer", matmul(in, w))));
  return p.returns({p.let("out", dropout(sum + b, 0.3) + r)});
}

// ol(MM, fuse(RS-C-AG))
inline Schedule overlapped_sum(const Program& program) {
  Schedule schedule(program);
  schedule.split("sum", SplitPolicy::reduce_scatter).reorder("sum", {"out"});
  return schedule.fuse("c", {"sum.part", "out.part", "out"}).overlap("all", {"layer", "c"});
}

// The border of two pipeline stages: what the first one's ranks sum, and C, go to the second.
inline Program pipeline_border(ElementType type) {
  ProgramBuilder p("pipeline_border", 2);
  const auto in = p.tensor("in", type, {"B", "H"}, Distribution::local()), b = p.tensor("b", type, {"H"}),
             r = p.tensor("r", type, {"B", "H"});
  const auto sum = p.let("sum", all_reduce(ReduceOp::sum, in));
  return p.returns({p.let("out", send(p.let("c", dropout(sum + b, 0.3) + r)))});
}

inline Schedule ar_c_p2p_ag(const Program& border) {
  return Schedule(border).split("c", SplitPolicy::slice).reorder("c", {"out"});
}

inline Schedule rs_c_p2p_ag(const Program& border) {
  return Schedule(border).split("sum", SplitPolicy::reduce_scatter).reorder("sum", {"c", "out"});
}

// ol(RS, fuse(C-P2P), AG)
inline Schedule overlapped_border(const Program& border) {
  return rs_c_p2p_ag(border).fuse("c_p2p", {"c.part", "out.part"}).overlap("all", {"sum.part", "c_p2p", "out"});
}

}  // namespace axonn::coconet::figures
