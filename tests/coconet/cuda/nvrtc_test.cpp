// NVRTC takes the CUDA text of every kernel. It needs no GPU.
#include <nvrtc.h>

#include <gtest/gtest.h>

#include "axonn/coconet/cuda/cuda_source.hpp"
#include "coconet/cuda/host_kernels.hpp"
#include "coconet/cuda/some_kernels.hpp"

namespace axonn::coconet {
namespace {

using enum ElementType;

// PTX of a unit; "" and a failure with NVRTC's words if it refuses.
std::string ptx_of(const std::vector<PointwiseKernel>& kernels, std::vector<std::string> options) {
  options.emplace_back("--gpu-architecture=compute_90");
  std::vector<const char*> words;
  for (const std::string& each : options) words.push_back(each.c_str());
  nvrtcProgram program = nullptr;
  EXPECT_EQ(nvrtcCreateProgram(&program, test::unit_text(kernels).c_str(), "kernels.cu", 0, nullptr, nullptr),
            NVRTC_SUCCESS);
  const nvrtcResult result = nvrtcCompileProgram(program, static_cast<int>(words.size()), words.data());
  size_t size = 0;
  std::string text;
  const auto read = [&](auto size_of, auto get) {
    EXPECT_EQ(size_of(program, &size), NVRTC_SUCCESS);
    text.resize(size);
    EXPECT_EQ(get(program, text.data()), NVRTC_SUCCESS);
    return text.c_str();
  };
  const std::string said = read(nvrtcGetProgramLogSize, nvrtcGetProgramLog);
  EXPECT_EQ(result, NVRTC_SUCCESS) << said;
  EXPECT_EQ(said, "");  // no warnings either
  const std::string ptx = result == NVRTC_SUCCESS ? read(nvrtcGetPTXSize, nvrtcGetPTX) : "";
  nvrtcDestroyProgram(&program);
  return ptx;
}

void expect_kernels(const std::vector<PointwiseKernel>& kernels) {
  const std::string ptx = ptx_of(kernels, cuda_options());
  for (size_t i = 0; i < kernels.size(); ++i)
    EXPECT_NE(ptx.find(".entry " + test::kernel_name(i) + "("), std::string::npos) << i;
}

TEST(Nvrtc, TakesRandomKernels) { expect_kernels(test::random_kernels(60)); }
TEST(Nvrtc, TakesAThousandRandomKernels) { expect_kernels(test::random_kernels(1000)); }

TEST(Nvrtc, TakesEveryOptimizer) {
  std::vector<PointwiseKernel> kernels;
  for (test::NamedKernel& each : test::kernels_of_programs(AXONN_SOURCE "/configs/programs"))
    kernels.push_back(std::move(each.kernel));
  expect_kernels(kernels);
}

// a * b + c is rounded twice, unless the kernel says fma.
TEST(Nvrtc, MakesAnFmaOnlyWhereTheKernelHasOne) {
  const auto kernel = [](bool fused, ElementType type) {
    PointwiseKernel k;
    const auto out = k.stream("out", type);
    const auto x = k.load(k.stream("a", type)), y = k.load(k.stream("b", type)), z = k.load(out);
    k.store(out, fused ? k.apply(PointwiseOp::fma, {x, y, z})
                       : k.apply(PointwiseOp::add, {k.apply(PointwiseOp::multiply, {x, y}), z}));
    return k;
  };
  for (const ElementType type : {fp32, fp64}) {
    const auto has_fma = [&](bool fused, const std::vector<std::string>& options) {
      return ptx_of({kernel(fused, type)}, options).find("fma.rn") != std::string::npos;
    };
    EXPECT_FALSE(has_fma(false, cuda_options()));
    EXPECT_TRUE(has_fma(true, cuda_options()));
    EXPECT_TRUE(has_fma(false, {"--std=c++17"}));  // the fault that the options prevent
  }
}

}  // namespace
}  // namespace axonn::coconet
