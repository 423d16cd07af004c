#include <memory>
#include <sstream>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include "axonn/checkpoint/state_dict_files.hpp"
#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "axonn/layers/compare/differences.hpp"
#include "wrap/split_layer.hpp"
#include "wrap/stored_tensors.hpp"

namespace axonn {
namespace {

using safetensors::File;
using safetensors::StateDictReader;
using Place = StateDictReader::Place;
constexpr const char* kWhere = "wrap.state_dict";

struct Match {
  const StoredTensor* tensor = nullptr;
  std::vector<std::pair<std::string, Place>> places;  // under each of its names that the file has
};

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::ostringstream text;
  text << c10::IntArrayRef(sizes);
  return text.str();
}

// Pairs both sides, and complains of everything at once.
std::vector<Match> match(const std::vector<StoredTensor>& tensors, const std::filesystem::path& file,
                         const StateDictReader& files, bool strict, LoadedStateDict& report) {
  std::vector<Match> matches;
  std::vector<std::string> in_module, in_file, complaints;
  for (const auto& [name, place] : files.places()) in_file.push_back(name);
  for (const StoredTensor& tensor : tensors) {
    Match found{.tensor = &tensor, .places = {}};
    for (const std::string& name : tensor.names) {
      in_module.push_back(name);
      const auto place = files.places().find(name);
      if (place == files.places().end()) continue;
      found.places.emplace_back(name, place->second);
      const File::Entry& entry = *place->second.entry;
      if (entry.shape != tensor.shape || c10::isFloatingType(entry.dtype) != tensor.held.is_floating_point())
        complaints.push_back("'" + name + "' is " + sizes_text(entry.shape) + " of " + c10::toString(entry.dtype) +
                             ", and the module needs " + sizes_text(tensor.shape) + " of " +
                             c10::toString(tensor.held.scalar_type()));
    }
    if (!found.places.empty()) {
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
  std::string all;
  for (const std::string& each : complaints) all += (all.empty() ? "" : "; ") + each;
  AXONN_CHECK(all.empty(), kWhere, file.string(), ": ", all);
  return matches;
}

at::Tensor read_range(const Place& place, Range range) {
  const at::Tensor part = at::empty({range.size()}, at::TensorOptions().dtype(place.entry->dtype));
  const auto width = static_cast<int64_t>(part.element_size());
  place.file->read(*place.entry, range.begin * width,
                   {static_cast<std::byte*>(part.mutable_data_ptr()), part.nbytes()});
  return part;
}

at::Tensor read(Context& context, const StoredTensor& tensor, const Place& place) {
  if (tensor.of_layer) {
    const at::Tensor whole = read_range(place, {0, c10::multiply_integers(tensor.shape)}).view(tensor.shape);
    return stored_part(as_stored(whole).reshape({-1}), *tensor.slot, context.shape(), context.at());
  }
  return read_range(place, tensor.slot != nullptr ? tensor.slot->range : Range{0, tensor.held.numel()});
}

}  // namespace

std::set<std::string> names_in(Context& context, const std::filesystem::path& file) {
  std::set<std::string> names;
  all_ranks_or_none(context.communicators().on_cpu({Axis::x, Axis::y, Axis::z, Axis::data}), [&] {
    const File opened(file);
    for (const File::Entry& entry : opened.entries()) names.insert(entry.name);
  });
  return names;
}

LoadedStateDict read_tensors(Context& context, const std::vector<StoredTensor>& tensors,
                             const std::filesystem::path& file, const LoadStateDictOptions& options) {
  const at::NoGradGuard no_grad;
  LoadedStateDict report;
  std::unique_ptr<StateDictReader> files;
  std::vector<Match> matches;
  Communicator& everyone = context.communicators().on_cpu({Axis::x, Axis::y, Axis::z, Axis::data});
  all_ranks_or_none(everyone, [&] {
    files = std::make_unique<StateDictReader>(file, options.rename);
    matches = match(tensors, file, *files, options.strict, report);
    for (const Match& each : matches)
      for (const auto& [name, place] : each.places)
        AXONN_CHECK(read(context, *each.tensor, place).equal(read(context, *each.tensor, each.places.front().second)),
                    kWhere, file.string(), ": '", each.places.front().first, "' and '", name,
                    "' are one tensor of the module, and have different values; let .rename leave one out (\"\")");
  });
  all_ranks_or_none(everyone, [&] {
    for (const Match& each : matches) each.tensor->held.copy_(read(context, *each.tensor, each.places.front().second));
  });
  return report;
}

}  // namespace axonn
