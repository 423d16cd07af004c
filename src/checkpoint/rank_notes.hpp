#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "checkpoint/manifest.hpp"

// While a checkpoint is written, every rank leaves a note about its file for rank 0, which writes
// the manifest.
namespace axonn {

// `file` has all ranges of which the rank's group stores something, whether it owns a part or not.
void write_note(const std::filesystem::path& partial, const Manifest::File& file);

// Reads and removes the notes of all ranks. Returns the files as the manifest lists them: a range
// of a cut tensor only at the first rank of the group. UserError unless there are `ranks` notes and
// all ranks of a group describe their range alike.
std::vector<Manifest::File> take_notes(const std::filesystem::path& partial, int64_t ranks,
                                       const std::vector<CheckpointReader::Description>& tensors);

}  // namespace axonn
