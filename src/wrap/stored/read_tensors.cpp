#include <algorithm>
#include <optional>
#include <sstream>

#include <ATen/core/grad_mode.h>
#include <c10/util/accumulate.h>

#include "axonn/checkpoint/safetensors.hpp"
#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/comm/each_reads.hpp"
#include "axonn/comm/same_file.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/core/text.hpp"
#include "axonn/layers/compare/differences.hpp"
#include "core/files.hpp"
#include "wrap/split_layer.hpp"
#include "wrap/stored/stored_tensors.hpp"
#include "wrap/stored/tensor_file.hpp"

namespace axonn {
namespace {

using safetensors::File;
using Entry = TensorFile::Entry;
constexpr const char* kWhere = "wrap.state_dict";

struct Match {
  const StoredTensor* tensor = nullptr;
  std::vector<std::pair<std::string, const Entry*>> entries;  // under each of its names that the file has
};

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::ostringstream text;
  text << c10::IntArrayRef(sizes);
  return text.str();
}

// Pairs both sides, and complains of everything at once.
std::vector<Match> match(const std::vector<StoredTensor>& tensors, const std::filesystem::path& file,
                         const TensorFile& opened, bool strict, LoadedStateDict& report) {
  std::vector<Match> matches;
  std::vector<std::string> in_module, in_file, complaints;
  for (const auto& [name, entry] : opened.entries()) in_file.push_back(name);
  for (const StoredTensor& tensor : tensors) {
    Match found{.tensor = &tensor, .entries = {}};
    for (const std::string& name : tensor.names) {
      in_module.push_back(name);
      const auto there = opened.entries().find(name);
      if (there == opened.entries().end()) continue;
      const Entry& entry = there->second;
      found.entries.emplace_back(name, &entry);
      if (entry.shape != tensor.shape || c10::isFloatingType(entry.dtype) != tensor.held.is_floating_point())
        complaints.push_back("'" + name + "' is " + sizes_text(entry.shape) + " of " + c10::toString(entry.dtype) +
                             ", and the module needs " + sizes_text(tensor.shape) + " of " +
                             c10::toString(tensor.held.scalar_type()));
    }
    if (!found.entries.empty()) {
      matches.push_back(std::move(found));
      continue;
    }
    report.missing.push_back(tensor.names.front());
    std::string names;
    for (const std::string& name : tensor.names) names += (names.empty() ? "'" : " or '") + name + "'";
    if (strict) complaints.push_back(names + " is missing");
  }
  for (const std::string& name : in_file)
    if (std::ranges::find(in_module, name) == in_module.end()) report.unexpected.push_back(name);
  if (strict) {
    for (const std::string& name : report.unexpected)
      complaints.push_back("'" + name + "' is unexpected" + did_you_mean(name, in_module));
  }
  AXONN_CHECK(complaints.empty(), kWhere, file.string(), ": ", join(complaints, "; "));
  return matches;
}

at::Tensor read(Context& context, const StoredTensor& tensor, const Entry& entry) {
  if (tensor.of_layer) {
    const at::Tensor whole = entry.read({0, c10::multiply_integers(tensor.shape)}).view(tensor.shape);
    return stored_part(as_stored(whole).reshape({-1}), *tensor.slot, context.shape(), context.at());
  }
  return entry.read(tensor.slot != nullptr ? tensor.slot->range : Range{0, tensor.held.numel()});
}

// Of names, sizes, types, and some values of each tensor: those of another training differ in all.
uint64_t hash_of(const TensorFile& opened) {
  constexpr int64_t kValues = 256;
  std::string text;
  for (const auto& [name, entry] : opened.entries()) {
    text += name + sizes_text(entry.shape) + c10::toString(entry.dtype);
    const int64_t all = c10::multiply_integers(entry.shape), some = std::min(kValues, all);
    for (const int64_t begin : {int64_t{0}, (all - some) / 2, all - some}) {
      const at::Tensor values = entry.read({begin, begin + some}).contiguous();
      text.append(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
    }
  }
  return disk::xxh64_of(text);
}

}  // namespace

std::set<std::string> names_in(Context& context, const std::filesystem::path& file) {
  std::set<std::string> names;
  each_rank_reads(context.communicators().on_cpu({Axis::x, Axis::y, Axis::z, Axis::data}), [&] {
    const File opened(file);
    for (const File::Entry& entry : opened.entries()) names.insert(entry.name);
  });
  return names;
}

LoadedStateDict read_tensors(Context& context, const std::vector<StoredTensor>& tensors,
                             const std::filesystem::path& file, const LoadStateDictOptions& options) {
  const at::NoGradGuard no_grad;
  LoadedStateDict report;
  std::optional<TensorFile> opened;
  std::vector<Match> matches;
  Communicator& everyone = context.communicators().on_cpu({Axis::x, Axis::y, Axis::z, Axis::data});
  uint64_t hash = 0;
  each_rank_reads(everyone, [&] {
    opened.emplace(file, options.rename);
    hash = hash_of(*opened);
  });
  check_same_content(everyone, hash, {file, "file of tensors", "the program"});
  all_ranks_or_none(everyone, [&] {
    matches = match(tensors, file, *opened, options.strict, report);
    for (const Match& each : matches)
      for (const auto& [name, entry] : each.entries)
        AXONN_CHECK(
            read(context, *each.tensor, *entry).equal(read(context, *each.tensor, *each.entries.front().second)),
            kWhere, file.string(), ": '", each.entries.front().first, "' and '", name,
            "' are one tensor of the module, and have different values; let .rename leave one out (\"\")");
  });
  all_ranks_or_none(everyone, [&] {
    for (const Match& each : matches)
      each.tensor->held.copy_(read(context, *each.tensor, *each.entries.front().second));
  });
  return report;
}

}  // namespace axonn
