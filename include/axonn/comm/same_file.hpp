#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "axonn/comm/communicator.hpp"

namespace axonn {

// A file that each rank has read by itself.
struct ReadFile {
  std::filesystem::path file;
  std::string what;  // "checkpoint"
  std::string by;    // the flag or call that named it: "--resume", "load_checkpoint()"
};

// UserError on every rank if `hash`, of what was read, is not that of rank 0: it names the ranks,
// and file and host of the first one. Every rank calls it.
void check_same_content(Communicator& everyone, uint64_t hash, const ReadFile& read);

// The same of all bytes of a file, which is read here.
void check_same_file(Communicator& everyone, const ReadFile& read);

}  // namespace axonn
