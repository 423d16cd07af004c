#pragma once

#include <memory>
#include <string>

#include "data/packed/byte_source.hpp"

namespace axonn {

// A file as it is. Sources of packed files read it.
class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::filesystem::path& path);
  ~FileSource() override;
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  size_t read(std::span<char> into) override;
  int64_t used_bytes() const override { return used_; }
  int64_t size() const;  // bytes on the disk; 0: a pipe or its like
  void rewind();
  const std::string& name() const { return name_; }  // for messages

 private:
  std::string name_;
  int descriptor_ = -1;
  int64_t used_ = 0;
};

// The packed files of one name after the other, as gunzip and unzstd unpack them.
std::unique_ptr<ByteSource> gzip_source(std::unique_ptr<FileSource> file);
std::unique_ptr<ByteSource> zstd_source(std::unique_ptr<FileSource> file);

}  // namespace axonn
