#include "axonn/coconet/cuda/cuda_source.hpp"

#include <algorithm>
#include <cctype>
#include <set>

#include "axonn/core/error.hpp"
#include "coconet/cuda/cuda_expression.hpp"
#include "coconet/stages/chain_nodes.hpp"

namespace axonn::coconet {
namespace {

constexpr const char* kWhere = "coconet.cuda";

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string type_text(ElementType in_registers) { return in_registers == ElementType::fp64 ? "double" : "float"; }

std::string stream_type(ElementType type) {
  return type == ElementType::fp64 ? "double" : type == ElementType::fp32 ? "float" : "uint16_t";
}

class KernelText {
 public:
  KernelText(const PointwiseKernel& kernel, std::string_view name)
      : kernel_(kernel), items_(lower(kernel)), name_(name), reduces_(!kernel.reductions().empty()) {}

  // `begin`: what comes before the function's name.
  std::string run(const std::string& begin) {
    text_ = "namespace axonn::coconet {\n\n" + begin + " void " + name_ + "(" + parameters() + ") {\n";
    for (const ChainItem& item : items_.once)
      if (item.computes()) define(item, "  ");
    if (reduces_)
      block_loop();
    else
      element_loop();
    return text_ + "}\n\n}  // namespace axonn::coconet\n";
  }

 private:
  const ChainNode& at(int node) const { return items_.nodes[static_cast<size_t>(node)]; }

  // "stream_w1_part": a name of its own for each parameter.
  std::string parameter(const char* kind, const std::string& name) {
    std::string made = std::string(kind) + "_" + name;
    for (char& c : made)
      if (!is_word(c)) c = '_';
    std::string own = made;
    for (int i = 2; !names_.insert(own).second; ++i) own = made + "_" + std::to_string(i);
    return own;
  }

  std::string parameters() {
    std::string text = "\n    int64_t count";
    const auto add = [&](const std::string& type, std::vector<std::string>& to, std::string name) {
      text += ",\n    " + type + " " + name;
      to.push_back(std::move(name));
    };
    for (const PointwiseKernel::StreamType& each : kernel_.streams())
      add((each.stored ? "" : "const ") + stream_type(each.type) + "*", streams_, parameter("stream", each.name));
    for (const std::string& each : kernel_.scalars()) add("double", numbers_, parameter("scalar", each));
    for (const std::string& each : kernel_.range_values()) add("double", numbers_, parameter("range", each));
    for (const std::string& each : kernel_.masks()) add("MaskRun", masks_, parameter("mask", each));
    for (size_t i = 0; i < kernel_.reductions().size(); ++i)
      add("double*", partials_, parameter("partials", std::to_string(i)));
    return text;
  }

  std::string operand(int node) const {
    if (node < 0) return "";
    const ChainNode& from = at(node);
    if (from.kind != ChainNode::Kind::number) return local(node);
    const auto index = static_cast<size_t>(from.index);
    if (index >= numbers_.size()) return cuda_literal(items_.constants[index - numbers_.size()], from.type);
    return from.type == ElementType::fp64 ? numbers_[index] : "static_cast<float>(" + numbers_[index] + ")";
  }

  std::string local(int node) const { return (at(node).is_number ? "n" : "v") + std::to_string(node); }

  void line(const std::string& indent, const std::string& text) { text_ += indent + text + ";\n"; }

  void define(const ChainItem& item, const std::string& indent) {
    const ChainNode& node = at(item.node);
    const std::string value = node.op == StageOp::mask
                                  ? "draw_mask(" + masks_[static_cast<size_t>(node.index)] + ", i)"
                                  : cuda_expression(node.op, node.operand_type, operand(node.operands[0]),
                                                    operand(node.operands[1]), operand(node.operands[2]));
    line(indent, "const " + type_text(node.type) + " " + local(item.node) + " = " + value);
  }

  // All loads come first: a stream may be stored in place, or share its memory with one that is.
  void load_all(const std::string& indent) {
    std::set<int> loaded;
    for (const ChainItem& item : items_.per_element) {
      if (!item.computes()) continue;
      for (const int node : at(item.node).operands) {
        if (node < 0 || at(node).kind != ChainNode::Kind::load || !loaded.insert(node).second) continue;
        const std::string element = streams_[static_cast<size_t>(at(node).index)] + "[i]";
        const Source memory = at(node).memory;
        line(indent, "const " + type_text(at(node).type) + " " + local(node) + " = " +
                         (memory == Source::bf16   ? "widen_bf16(" + element + ")"
                          : memory == Source::fp16 ? "widen_half(" + element + ")"
                                                   : element));
      }
    }
  }

  void store(const ChainItem& item, const std::string& indent) {
    const std::string value = local(item.node);
    line(indent, streams_[static_cast<size_t>(item.index)] + "[i] = " +
                     (item.out == Source::bf16   ? "static_cast<uint16_t>(upper_half_of(" + value + "))"
                      : item.out == Source::fp16 ? "static_cast<uint16_t>(half_word_of(" + value + "))"
                                                 : value));
  }

  // r = r + x, or the larger or smaller of both.
  static std::string joined(ReduceOp kind, const std::string& r, const std::string& x) {
    if (kind == ReduceOp::sum) return r + " = " + r + " + " + x;
    return r + " = " + (kind == ReduceOp::max ? "maximum_of(" : "minimum_of(") + r + ", " + x + ")";
  }

  void accumulate(const ChainItem& item, const std::string& indent) {
    const std::string wide = "static_cast<double>(" + local(item.node) + ")";
    line(indent, joined(kernel_.reductions()[static_cast<size_t>(item.index)].kind, result(item.index),
                        item.op == StageOp::reduce_squares ? wide + " * " + wide : wide));
  }

  static std::string result(int reduction) { return "r" + std::to_string(reduction); }

  void body(const std::string& indent) {
    load_all(indent);
    for (const ChainItem& item : items_.per_element) {
      if (item.computes())
        define(item, indent);
      else if (item.op == StageOp::store)
        store(item, indent);
      else
        accumulate(item, indent);
    }
  }

  void element_loop() {
    line("  ", "const int64_t threads = int64_t{gridDim.x} * blockDim.x");
    text_ += "  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += threads) {\n";
    body("    ");
    text_ += "  }\n";
  }

  // A warp computes a block of 1024 elements: its lanes are the block's partial results.
  void block_loop() {
    static_assert(StageChain::kReductionBlock == 1024);
    line("  ", "const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x");
    line("  ", "const int64_t lane = thread % 32, warps = int64_t{gridDim.x} * blockDim.x / 32");
    text_ += "  for (int64_t block = thread / 32; block * 1024 < count; block += warps) {\n";
    const int count = static_cast<int>(kernel_.reductions().size());
    const auto kind = [&](int i) { return kernel_.reductions()[static_cast<size_t>(i)].kind; };
    for (int i = 0; i < count; ++i)
      line("    ", "double " + result(i) + " = " +
                       (kind(i) == ReduceOp::sum   ? "0.0"
                        : kind(i) == ReduceOp::max ? "-kInfinity"
                                                   : "kInfinity"));
    line("    ", "const int64_t end = block * 1024 + 1024 < count ? block * 1024 + 1024 : count");
    text_ += "    for (int64_t i = block * 1024 + lane; i < end; i += 32) {\n";
    body("      ");
    text_ += "    }\n    for (int half = 16; half > 0; half /= 2) {\n";
    for (int i = 0; i < count; ++i)
      line("      ", joined(kind(i), result(i), "__shfl_down_sync(0xffffffffu, " + result(i) + ", half)"));
    text_ += "    }\n    if (lane == 0) {\n";
    for (int i = 0; i < count; ++i) line("      ", partials_[static_cast<size_t>(i)] + "[block] = " + result(i));
    text_ += "    }\n  }\n";
  }

  const PointwiseKernel& kernel_;
  const ChainItems items_;
  const std::string name_;
  const bool reduces_;
  std::set<std::string> names_;
  std::vector<std::string> streams_, numbers_, masks_, partials_;  // scalars come before range values
  std::string text_;
};

std::string text_of(const PointwiseKernel& kernel, std::string_view name, const std::string& begin) {
  const bool identifier =
      !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 && std::ranges::all_of(name, is_word);
  AXONN_CHECK(identifier, kWhere,
              "a kernel's name must have letters, digits and _ only, and begin with no digit; got '", name, "'");
  return KernelText(kernel, name).run(begin);
}

}  // namespace

std::string cuda_kernel(const PointwiseKernel& kernel, std::string_view name) {
  return text_of(kernel, name, "extern \"C\" __global__");
}

std::string cuda_function(const PointwiseKernel& kernel, std::string_view name) {
  return text_of(kernel, name, "AXONN_INLINE");
}

std::vector<std::string> cuda_options() {
  return {"--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"};
}

}  // namespace axonn::coconet
