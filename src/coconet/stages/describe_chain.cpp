#include <array>

#include "axonn/core/text.hpp"
#include "coconet/stages/compiled_chain.hpp"

namespace axonn::coconet {
namespace {

constexpr std::array<const char*, static_cast<size_t>(StageOp::end) + 1> kOpNames = {"copy",
                                                                                     "add",
                                                                                     "subtract",
                                                                                     "multiply",
                                                                                     "divide",
                                                                                     "minimum",
                                                                                     "maximum",
                                                                                     "power",
                                                                                     "less",
                                                                                     "less_equal",
                                                                                     "equal",
                                                                                     "not_equal",
                                                                                     "negate",
                                                                                     "absolute",
                                                                                     "square_root",
                                                                                     "exponential",
                                                                                     "logarithm",
                                                                                     "tanh",
                                                                                     "relu",
                                                                                     "gelu",
                                                                                     "gelu_tanh",
                                                                                     "sigmoid",
                                                                                     "fast_exponential",
                                                                                     "is_finite",
                                                                                     "fma",
                                                                                     "select",
                                                                                     "widen",
                                                                                     "narrow",
                                                                                     "round_bf16",
                                                                                     "round_fp16",
                                                                                     "mask",
                                                                                     "spill",
                                                                                     "store",
                                                                                     "publish",
                                                                                     "reduce_sum",
                                                                                     "reduce_maximum",
                                                                                     "reduce_minimum",
                                                                                     "reduce_squares",
                                                                                     "end"};

std::string name_of_number(const StageChain::Compiled& chain, int index) {
  const auto place = static_cast<size_t>(index);
  const size_t scalars = chain.kernel.scalars().size(), given = scalars + chain.kernel.range_values().size();
  if (place < scalars) return chain.kernel.scalars()[place];
  if (place < given) return chain.kernel.range_values()[place - scalars];
  if (place < given + chain.constants.size()) return detail::concatenate(chain.constants[place - given]);
  return "number " + std::to_string(index);
}

std::string name_of(const StageChain::Compiled& chain, Source source, int index) {
  if (source >= Source::fp32) return chain.kernel.streams()[static_cast<size_t>(index)].name;
  if (source == Source::number) return name_of_number(chain, index);
  if (source == Source::scratch) return "spilled " + std::to_string(index);
  return "r" + std::to_string(static_cast<int>(source) - static_cast<int>(Source::r0));
}

std::string operands_of(const StageChain::Compiled& chain, const WrittenStage& stage) {
  std::string text;
  const std::array<std::pair<Source, int>, 3> all{
      {{stage.key.a, stage.a}, {stage.key.b, stage.b}, {stage.key.c, stage.c}}};
  for (const auto& [source, index] : all)
    if (source != Source::none) text.append(text.empty() ? "" : ", ").append(name_of(chain, source, index));
  if (stage.key.op == StageOp::mask) text = chain.kernel.masks()[static_cast<size_t>(stage.out)];
  return text;
}

}  // namespace

std::string describe_stage(const StageChain::Compiled& chain, const WrittenStage& stage) {
  const StageKey& key = stage.key;
  const std::string op = kOpNames[static_cast<size_t>(key.op)], operands = operands_of(chain, stage);
  switch (key.op) {
    case StageOp::end:
      return op;
    case StageOp::spill:
      return "spilled " + std::to_string(stage.out) + " = " + operands;
    case StageOp::publish:
      return "number " + std::to_string(stage.out) + " = " + operands;
    case StageOp::store:
      return name_of(chain, key.out, stage.out) + " = " + operands;
    case StageOp::reduce_sum:
    case StageOp::reduce_maximum:
    case StageOp::reduce_minimum:
    case StageOp::reduce_squares:
      return "reduction " + std::to_string(stage.out) + ": " + op + "(" + operands + ")";
    default:
      break;
  }
  std::string text = key.op == StageOp::copy && key.a == Source::r0
                         ? ""
                         : "r0 = " + (key.op == StageOp::copy ? operands : op + "(" + operands + ")");
  if (key.save > 0) text.append(text.empty() ? "" : ", ").append("r" + std::to_string(key.save) + " = old r0");
  if (key.out != Source::none) text.append(", " + name_of(chain, key.out, stage.out) + " = r0");
  return text;
}

std::string StageChain::describe() const {
  const auto lines = [&](const BoundChain& bound) {
    std::string text;
    for (const WrittenStage& each : bound.written) text.append("  " + describe_stage(*compiled_, each) + "\n");
    return text;
  };
  const auto title = [&](const char* when, const BoundChain& bound) {
    return detail::concatenate(when, ", ", to_string(compiled_->set), ", ", bound.elements_per_round,
                               " elements per round\n");
  };
  std::string text;
  if (compiled_->once.written.size() > 1)
    text = "once per call, " + std::string(to_string(compiled_->set)) + "\n" + lines(compiled_->once);
  return text + title("per element", compiled_->per_element) + lines(compiled_->per_element);
}

}  // namespace axonn::coconet
