#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "axonn/grid/shard_spec.hpp"

// The places of all ranks' parts in the files of a checkpoint, and what a file's header says of
// them. A file is a plain safetensors file. Each rank writes its own entries of the header and its
// own bytes, at places that follow from the sizes of all.
namespace axonn {

// One tensor of a part.
struct PartTensor {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Float;
  int64_t elements = 0;
};

int64_t bytes_of(std::span<const PartTensor> tensors);
// Its entries in the header, when its first tensor begins at byte `begin` of the file's data. The
// length does not depend on `begin`.
std::string header_entries(std::span<const PartTensor> tensors, int64_t begin);
// Bytes that a part needs behind it, so that whatever follows is aligned.
int64_t padding_after(int64_t bytes);

// The bytes of one rank's parts: their entries in the header, and their tensors.
struct PartShare {
  int64_t entries = 0, data = 0;
};
struct RankShare {
  int64_t file = 0;  // ranks with the same number write to one file
  std::vector<PartShare> parts;
};

struct FileLayout {
  struct File {
    int64_t bytes = 0;
    std::vector<int> ranks;  // ascending
  };
  struct Part {
    size_t file = 0;
    int rank = 0;
    size_t kind = 0;     // index in RankShare::parts
    Range header, data;  // bytes of the file
    // Text of the header before and behind the part's entries; only of the first and the last part
    // of a file.
    std::string before, behind;
    int64_t data_begin = 0;  // place of data.begin in the file's data, which the header counts
  };
  std::vector<File> files;
  std::vector<Part> parts;  // by file, rank and kind; without empty ones
};

// The same on all ranks, if they give the same shares: those of rank 0, 1, ...
FileLayout layout_of(const std::vector<RankShare>& shares);

}  // namespace axonn
