#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <vector>

#include "checkpoint/read/read_plan.hpp"
#include "echo_rank.hpp"

namespace axonn::bench {

// All that a rank reads and hears when it loads its tensors from a checkpoint that the same grid
// wrote. Nothing is read.
class Reading {
 public:
  // Directory and manifest outlive it. The tensors have no bytes.
  Reading(const std::filesystem::path& directory, const Manifest& manifest, const Coordinate& at,
          std::vector<CheckpointTensor> tensors);

  void agree(EchoRank& one) const;                       // the messages of load() before and after them
  void send(EchoRank& one) const;                        // the tensors
  std::map<size_t, int64_t> files(EchoRank& one) const;  // bytes that this rank reads, by file

 private:
  GridShape shape_;
  const std::vector<Manifest::Part>& parts_;
  std::vector<CheckpointTensor> tensors_;
  std::deque<ReadTarget> targets_;
  ReadPlan plan_;
  std::vector<uint8_t> numbers_;
};

}  // namespace axonn::bench
