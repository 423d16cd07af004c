#pragma once

#include <filesystem>

namespace axonn {

// A directory that appears when it is complete: files go into path(), which finish() syncs and
// renames. Without finish() nothing is left.
class NewDirectory {
 public:
  // UserError if `directory` exists and is not empty, unless `overwrite`.
  NewDirectory(std::filesystem::path directory, bool overwrite);
  ~NewDirectory();
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  const std::filesystem::path& path() const { return partial_; }
  void finish();  // removes what was there before

 private:
  std::filesystem::path directory_, partial_;
  bool finished_ = false;
};

}  // namespace axonn
