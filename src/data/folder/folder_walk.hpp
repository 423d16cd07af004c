#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "axonn/data/folder/files_read.hpp"

namespace axonn {

struct FolderFile {
  std::string name;  // relative to the folder, as bytes
  int64_t bytes = 0;
};

struct FolderWalk {
  std::vector<FolderFile> files;                  // sorted by name
  std::vector<std::string> folders;               // directly in the folder, those of `files` and others; sorted
  std::vector<FilesRead::LeftOut> left_out = {};  // sorted by name
};

// The one rule for the files of a folder of --data, whatever is in them. All below it is read
// except:
//   hidden files and folders, whose names begin with a point;
//   runs of axonn: folders with their metrics, locks or checkpoints. If `directory` itself is one,
//   only what the run has written is left out;
//   files that are neither regular files nor folders; they are not opened;
//   links to nothing, and links to a file or folder that is read by another name or that contains
//   `directory`. Other links are followed.
// A folder that cannot be read is a UserError. The same on every rank that sees the same files.
FolderWalk walk_folder(const std::filesystem::path& directory);

}  // namespace axonn
