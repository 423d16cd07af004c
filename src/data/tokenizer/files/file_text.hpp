#pragma once

#include <filesystem>
#include <string>

namespace axonn {

// A file of a tokenizer with its content.
struct FileText {
  std::filesystem::path path;
  std::string text;

  std::string name() const;  // for errors
};

// UserError when it is no regular file, cannot be read, or is larger than any tokenizer.
FileText read_file_text(const std::filesystem::path& path);

}  // namespace axonn
