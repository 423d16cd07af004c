#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <torch/data/samplers/distributed.h>
#include <torch/data/samplers/sequential.h>

#include "axonn/layers/context.hpp"

namespace axonn {

// This rank's rows of each batch that a sampler of LibTorch draws for all ranks. So a batch is the
// one of a single process, on every grid, and `batch_size` is that of a single process:
//
//   axonn::RowSampler sampler(context, torch::data::samplers::DistributedRandomSampler(size));
//   auto loader = torch::data::make_data_loader(std::move(data), sampler, 64);
//
// Ranks that differ only in X or Y get the same rows, as they must; DistributedRandomSampler by
// ranks would give them others. `All` draws the same on every rank: DistributedRandomSampler of one
// replica or SequentialSampler, and RandomSampler only where torch::manual_seed() was called with
// the same seed and nothing else was drawn. If a batch does not divide, the shares differ by one
// row: mean_over_ranks() takes that into account. A last batch with fewer rows than shares is left
// out.
template <typename All = torch::data::samplers::DistributedRandomSampler>
class RowSampler : public torch::data::samplers::Sampler<> {
 public:
  RowSampler(const Context& context, All all) : share_(context.row_share()), all_(std::move(all)) {}

  void reset(std::optional<size_t> new_size = std::nullopt) override { all_.reset(new_size); }
  std::optional<std::vector<size_t>> next(size_t batch_size) override {
    const std::optional<std::vector<size_t>> batch = all_.next(batch_size);
    if (!batch || static_cast<int64_t>(batch->size()) < share_.groups) return std::nullopt;
    const auto begin = [&](int64_t group) {
      return batch->begin() + static_cast<int64_t>(batch->size()) * group / share_.groups;
    };
    return std::vector<size_t>(begin(share_.mine), begin(share_.mine + 1));
  }
  void save(torch::serialize::OutputArchive& archive) const override { all_.save(archive); }
  void load(torch::serialize::InputArchive& archive) override { all_.load(archive); }
  All& all() { return all_; }  // such as for set_epoch()

 private:
  RowShare share_;
  All all_;
};

}  // namespace axonn
