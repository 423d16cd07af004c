#include "data/tokenizer/files/file_text.hpp"

#include "axonn/core/error.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/text.hpp"
#include "axonn/core/utf8.hpp"
#include "core/files.hpp"

namespace axonn {

std::string FileText::name() const { return shown_name(path.native()); }

FileText read_file_text(const std::filesystem::path& path) {
  constexpr uintmax_t kMostBytes = uintmax_t{1} << 30;
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  AXONN_CHECK(regular, "data.tokenizer", "cannot read the tokenizer's file ", shown_name(path.native()), ": ",
              error ? reason_and_cure(error) : "it is no file; give a file or a directory");
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  AXONN_CHECK(error || bytes <= kMostBytes, "data.tokenizer", shown_name(path.native()), " has ",
              bytes_text(static_cast<double>(bytes)), ", and a tokenizer's file has at most ",
              bytes_text(static_cast<double>(kMostBytes)));
  return {path, disk::read_text(path)};
}

}  // namespace axonn
