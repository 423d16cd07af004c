#include "model/hugging_face/new_directory.hpp"

#include <system_error>
#include <utility>

#include "axonn/core/error.hpp"
#include "core/files.hpp"

namespace axonn {

namespace fs = std::filesystem;

NewDirectory::NewDirectory(fs::path directory, bool overwrite)
    : directory_(std::move(directory)), partial_(directory_.string() + ".partial") {
  AXONN_CHECK(overwrite || !fs::exists(directory_) || fs::is_empty(directory_), "model.new_directory",
              directory_.string(), " exists; name another directory, or add --overwrite");
  fs::remove_all(partial_);
  fs::create_directories(partial_);
}

NewDirectory::~NewDirectory() {
  std::error_code gone;
  if (!finished_) fs::remove_all(partial_, gone);
}

void NewDirectory::finish() {
  disk::sync_directory(partial_);
  fs::remove_all(directory_);
  fs::rename(partial_, directory_);
  finished_ = true;
}

}  // namespace axonn
