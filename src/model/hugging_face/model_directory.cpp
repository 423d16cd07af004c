#include "axonn/model/hugging_face/model_directory.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include "axonn/checkpoint/state_dict_files.hpp"
#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/core/text.hpp"
#include "axonn/hugging_face/tensor_names.hpp"
#include "axonn/model/decoder/config.hpp"
#include "model/hugging_face/file_region.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using Place = safetensors::StateDictReader::Place;
constexpr const char* kWhere = "model.directory";

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::ostringstream text;
  text << c10::IntArrayRef(sizes);
  return text.str();
}

fs::path weights_in(const fs::path& directory) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
    if (fs::exists(directory / name)) return directory / name;
  const bool pickled =
      fs::exists(directory / "pytorch_model.bin") || fs::exists(directory / "pytorch_model.bin.index.json");
  const char* more = pickled ? " (its pytorch_model.bin holds programs as well as weights, and is not read)" : "";
  throw UserError(kWhere, detail::concatenate(directory.string(), " has neither model.safetensors nor ",
                                              "model.safetensors.index.json", more,
                                              "; save_pretrained() of transformers writes one of them"));
}

// The tensors that the network needs, under their usual names; all complaints at once.
std::map<std::string, Place> matched(const safetensors::StateDictReader& files, const HuggingFaceConfig& config,
                                     const std::vector<DecoderTensor>& tensors, const fs::path& directory) {
  constexpr size_t kMostShown = 12;
  std::map<std::string, Place> there;
  std::vector<std::string> complaints, needed;
  for (const auto& [name, place] : files.places())
    if (const std::string usual = usual_name(name, config.model_type); !usual.empty()) there.emplace(usual, place);
  for (const DecoderTensor& tensor : tensors)
    for (const FilePart& part : tensor.parts) {
      needed.push_back(part.name);
      const auto found = there.find(part.name);
      if (found == there.end()) {
        complaints.push_back("'" + part.name + "' is missing");
        continue;
      }
      const auto& entry = *found->second.entry;
      if (entry.shape != part.shape || !c10::isFloatingType(entry.dtype))
        complaints.push_back("'" + part.name + "' is " + sizes_text(entry.shape) + " of " +
                             std::string(safetensors::dtype_name(entry.dtype)) + ", and config.json describes " +
                             sizes_text(part.shape) + " of floating-point numbers");
    }
  std::vector<std::string> sorted = needed;
  std::ranges::sort(sorted);
  for (const auto& [name, place] : there) {
    if (std::ranges::binary_search(sorted, name)) continue;
    if (name == "lm_head.weight" && config.shape.tied_head) continue;  // compared with the embedding in load()
    complaints.push_back("'" + name + "' is left over" + did_you_mean(name, needed));
  }
  const size_t all = complaints.size();
  if (all > kMostShown) {
    complaints.resize(kMostShown);
    complaints.push_back(detail::concatenate("and ", all - kMostShown, " more"));
  }
  AXONN_CHECK(complaints.empty(), kWhere, directory.string(), ": ", join(complaints, "; "),
              "; give the config.json and the weights of one network");
  return there;
}

at::Tensor read_file(const Place& place) {
  const at::Tensor whole = at::empty(place.entry->shape, place.entry->dtype);
  place.file->read(*place.entry, {static_cast<std::byte*>(whole.mutable_data_ptr()), whole.nbytes()});
  return whole;
}

Range common(Range a, Range b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// This rank's elements of one tensor.
class Held {
 public:
  Held(const ArenaSlot& slot, const GridShape& shape, const Coordinate& at)
      : range_(slot.range),
        width_(slot.block_shape.size() < 2 ? 1 : slot.block_shape[1]),
        rows_(slot.spec.dims[0].local_ranges(shape, at)) {
    if (slot.spec.dims.size() < 2)
      columns_ = {{.local_begin = 0, .global = {0, 1}}};
    else
      columns_ = slot.spec.dims[1].local_ranges(shape, at);
  }

  // Calls use(begin, values) for values of `part` that lie side by side from element `begin` of the
  // range on, in order.
  template <typename Use>
  void read(const FilePart& part, const Place& place, const Use& use) const {
    if (range_.size() == 0 || width_ == 0) return;
    const Range held{range_.begin / width_, (range_.end + width_ - 1) / width_};  // rows of the block
    for (const Dim::LocalRange& each : rows_) {
      const Range local = common(held, {each.local_begin, each.local_begin + each.global.size()});
      const int64_t to_global = each.global.begin - each.local_begin;
      const Range global = common({local.begin + to_global, local.end + to_global}, part.rows);
      for (int64_t begin = global.begin; begin < global.end;) {
        const int64_t end = std::min(global.end, begin + rows_at_a_time(part, place));
        put((begin - to_global) * width_,
            values(part, place, {begin - part.rows.begin, end - part.rows.begin}).reshape({-1}), use);
        begin = end;
      }
    }
  }

 private:
  int64_t rows_at_a_time(const FilePart& part, const Place& place) const {
    int64_t bytes = 0;
    for (const Dim::LocalRange& each : columns_)
      bytes += part.transposed ? each.global.size() * static_cast<int64_t>(c10::elementSize(place.entry->dtype))
                               : bytes_per_row(place, each.global);
    return std::max<int64_t>(1, kRegionBytes / std::max<int64_t>(1, bytes));
  }

  at::Tensor values(const FilePart& part, const Place& place, Range rows) const {  // (rows, width_)
    std::vector<at::Tensor> parts;
    for (const Dim::LocalRange& each : columns_)
      parts.push_back(part.transposed ? read_region(place, each.global, rows).t()
                                      : read_region(place, rows, each.global));
    return parts.size() == 1 ? parts.front() : at::cat(parts, 1);
  }

  // `first`: place of the first value in the block.
  template <typename Use>
  void put(int64_t first, const at::Tensor& values, const Use& use) const {
    const Range some = common(range_, {first, first + values.size(0)});
    if (some.size() > 0) use(some.begin - range_.begin, values.narrow(0, some.begin - first, some.size()));
  }

  Range range_;
  int64_t width_;
  std::vector<Dim::LocalRange> rows_, columns_;
};

}  // namespace

struct ModelDirectory::Impl {
  fs::path path;
  HuggingFaceConfig config;
  std::vector<DecoderTensor> tensors;
  safetensors::StateDictReader files;
  std::map<std::string, Place> places;

  explicit Impl(const fs::path& directory)
      : path(directory),
        config(read_config(directory / "config.json")),
        tensors(tensor_names(config.shape, config.model_type)),
        files(weights_in(directory)),
        places(matched(files, config, tensors, directory)) {}

  void read(const DecoderTensor& tensor, const ArenaSlot& slot, const Context& context,
            const at::Tensor& master) const {
    const Held held(slot, context.shape(), context.at());
    const at::Tensor range = master.narrow(0, slot.offset, slot.range.size());
    for (const FilePart& part : tensor.parts)
      held.read(part, places.at(part.name),
                [&](int64_t begin, const at::Tensor& values) { range.narrow(0, begin, values.size(0)).copy_(values); });
  }

  // A file may hold a tied head as well.
  void check_tied(const DecoderTensor& embedding, const ArenaSlot& slot, const Context& context,
                  const at::Tensor& master) const {
    const auto head = places.find("lm_head.weight");
    if (!config.shape.tied_head || head == places.end()) return;
    const Held held(slot, context.shape(), context.at());
    const at::Tensor range = master.narrow(0, slot.offset, slot.range.size());
    held.read(embedding.parts.front(), head->second, [&](int64_t begin, const at::Tensor& values) {
      check_tied(embedding, range.narrow(0, begin, values.size(0)).cpu().equal(values.to(range.scalar_type())));
    });
  }
  void check_tied(const DecoderTensor& embedding, bool equal) const {
    AXONN_CHECK(equal, kWhere, path.string(), ": 'lm_head.weight' differs from '", embedding.parts.front().name,
                "', and config.json ties them; set tie_word_embeddings to false there to use both");
  }

  at::Tensor read_whole(const DecoderTensor& tensor) const {
    at::ScalarType dtype = places.at(tensor.parts.front().name).entry->dtype;
    for (const FilePart& part : tensor.parts) dtype = c10::promoteTypes(dtype, places.at(part.name).entry->dtype);
    const at::Tensor whole = at::empty(tensor.shape, dtype);
    for (const FilePart& part : tensor.parts) {
      const at::Tensor values = read_file(places.at(part.name));
      whole.narrow(0, part.rows.begin, part.rows.size()).copy_(part.transposed ? values.t() : values);
    }
    const auto head = places.find("lm_head.weight");
    if (tensor.name == "wte.weight" && config.shape.tied_head && head != places.end())
      check_tied(tensor, read_file(head->second).to(dtype).equal(whole));
    return whole;
  }
};

ModelDirectory::ModelDirectory(const fs::path& directory) : impl_(std::make_unique<Impl>(directory)) {}
ModelDirectory::~ModelDirectory() = default;
ModelDirectory::ModelDirectory(ModelDirectory&&) noexcept = default;
ModelDirectory& ModelDirectory::operator=(ModelDirectory&&) noexcept = default;

const fs::path& ModelDirectory::path() const { return impl_->path; }
const HuggingFaceConfig& ModelDirectory::config() const { return impl_->config; }

int64_t ModelDirectory::parameters() const { return parameters_of(impl_->config.shape); }

at::ScalarType ModelDirectory::dtype() const {
  return impl_->places.at(impl_->tensors.front().parts.front().name).entry->dtype;
}

void ModelDirectory::load(Context& context, const Parameters& parameters) const {
  const at::NoGradGuard no_grad;
  Communicator& everyone = context.communicators().on_cpu({Axis::x, Axis::y, Axis::z, Axis::data});
  all_ranks_or_none(everyone, [&] {
    size_t count = 0;
    for (const Parameters* some = &parameters; some != nullptr; some = some->frozen())
      count += static_cast<size_t>(std::ranges::count_if(
          some->list(), [](const ShardedParameter& parameter) { return !is_adapter(parameter.name()); }));
    AXONN_CHECK(count == impl_->tensors.size(), kWhere, path().string(), " holds ", impl_->tensors.size(),
                " tensors of our kind, and the network has ", count, "; make it with the shape of config()");
    for (const DecoderTensor& tensor : impl_->tensors) {
      const ShardedParameter& parameter = parameters[tensor.name];
      const Arena& arena = parameter.arena();
      const ArenaSlot& slot = parameter.slot();
      AXONN_CHECK(slot.spec.global_shape() == tensor.shape, kWhere, path().string(), ": '", tensor.name, "' is ",
                  sizes_text(tensor.shape), ", and the network has ", sizes_text(slot.spec.global_shape()),
                  "; make it with the shape of config()");
      impl_->read(tensor, slot, context, arena.master());
      if (tensor.name == "wte.weight") impl_->check_tied(tensor, slot, context, arena.master());
    }
  });
  for (const Parameters* some = &parameters; some != nullptr; some = some->frozen()) some->arena().round_master();
}

at::Tensor ModelDirectory::read_whole(const std::string& name) const {
  const at::NoGradGuard no_grad;
  const auto tensor = std::ranges::find(impl_->tensors, name, &DecoderTensor::name);
  AXONN_CHECK(tensor != impl_->tensors.end(), kWhere, path().string(), " holds no tensor of our name '", name,
              "'; name one of the network of config()");
  return impl_->read_whole(*tensor);
}

bool is_model_directory(const fs::path& path) { return fs::is_regular_file(path / "config.json"); }

}  // namespace axonn
