#include "checkpoint/read/part_bytes.hpp"

#include <algorithm>

namespace axonn {
namespace {

constexpr int64_t kReadBytes = int64_t{1} << 20;  // at once

}  // namespace

std::shared_ptr<const disk::OpenFile> PartFiles::open(const Manifest::Part& part) {
  if (file_ && last_ == part.file) return file_;
  file_ = std::make_shared<const disk::OpenFile>(directory_ / manifest_.name_of(part));
  last_ = part.file;
  return file_;
}

std::optional<FilePiece> PartBytes::next() {
  const int64_t header = part_.header.size();
  const bool in_header = done_ < header;
  const int64_t place = in_header ? part_.header.begin + done_ : part_.data.begin + done_ - header;
  const int64_t left = (in_header ? part_.header.end : part_.data.end) - place;
  if (left <= 0) return std::nullopt;
  buffer_.resize(static_cast<size_t>(std::min(left, kReadBytes)));
  file_->read_at(place, buffer_);
  hash_.update(buffer_);
  done_ += std::ssize(buffer_);
  return FilePiece{place, buffer_};
}

void PartBytes::check() {
  while (next()) {
  }
  check_sum(files_.directory(), files_.manifest(), part_, hash_.digest());
}

}  // namespace axonn
