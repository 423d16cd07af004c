#include "coconet/cuda/host_kernels.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "axonn/coconet/cuda/cuda_source.hpp"
#include "support/scratch.hpp"

namespace axonn::coconet::test {

std::string kernel_name(size_t kernel) { return "k" + std::to_string(kernel); }

std::string unit_text(const std::vector<PointwiseKernel>& kernels) {
  std::string text = cuda_prelude();
  for (size_t i = 0; i < kernels.size(); ++i) text += cuda_kernel(kernels[i], kernel_name(i));
  return text;
}

HostKernels::HostKernels(std::vector<PointwiseKernel> kernels) : kernels_(std::move(kernels)) {
  const axonn::test::Scratch scratch;
  const auto source = scratch / "kernels.cpp", library = scratch / "kernels.so", words = scratch / "words.txt";
  std::ofstream file(source);
  file << "#include \"" << AXONN_TEXT_ON_HOST << "\"\n" << unit_text(kernels_);
  for (size_t i = 0; i < kernels_.size(); ++i) file << "AXONN_HOST_KERNEL(" << kernel_name(i) << ")\n";
  file.close();
  const std::string command = std::string(AXONN_COMPILER) +
                              " -std=c++17 -O1 -w -ffp-contract=off -shared -fPIC -I" AXONN_SOURCE "/tests -o " +
                              library.string() + " " + source.string() + " > " + words.string() + " 2>&1";
  if (std::system(command.c_str()) != 0) {
    throw std::runtime_error(command + "\n" + axonn::test::read(words));
  }
  library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) throw std::runtime_error(dlerror());
}

HostKernels::~HostKernels() { dlclose(library_); }

void HostKernels::launch(size_t kernel, const OracleInputs& inputs, const std::vector<void*>& streams,
                         const std::vector<double*>& partials, unsigned blocks, unsigned threads) const {
  long long count = inputs.count;
  std::vector<MaskRun> masks;
  for (const MaskInput& each : inputs.masks) masks.push_back(mask_run(each));
  std::vector<void*> arguments = {&count};
  const auto add = [&](auto& values) {
    for (auto& each : values) arguments.push_back(const_cast<void*>(static_cast<const void*>(&each)));
  };
  add(streams);
  add(inputs.scalars);
  add(inputs.range_values);
  add(masks);
  add(partials);
  const std::string name = "launch_" + kernel_name(kernel);
  const auto call = reinterpret_cast<void (*)(unsigned, unsigned, void**)>(dlsym(library_, name.c_str()));
  if (call == nullptr) throw std::runtime_error(dlerror());
  call(blocks, threads, arguments.data());
}

OracleResult HostKernels::run(size_t kernel, const OracleInputs& inputs, unsigned blocks, unsigned threads) const {
  OracleResult result{inputs.streams, {}};
  std::vector<void*> streams;
  for (std::vector<std::byte>& each : result.streams) streams.push_back(each.data());
  result.partials.assign(kernels_[kernel].reductions().size(),
                         std::vector<double>(static_cast<size_t>(StageChain::num_partials(inputs.count))));
  std::vector<double*> partials;
  for (std::vector<double>& each : result.partials) partials.push_back(each.data());
  launch(kernel, inputs, streams, partials, blocks, threads);
  return result;
}

}  // namespace axonn::coconet::test
