#include <algorithm>
#include <utility>
#include <vector>

#include <zlib.h>

#include "axonn/core/error.hpp"
#include "data/packed/packed_sources.hpp"

namespace axonn {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 16;

class GzipSource : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<FileSource> file) : file_(std::move(file)), buffer_(kBufferBytes) {
    constexpr int kGzipAlone = 15 + 16;
    AXONN_ASSERT(::inflateInit2(&stream_, kGzipAlone) == Z_OK, "of zlib");
  }
  ~GzipSource() override { ::inflateEnd(&stream_); }

  size_t read(std::span<char> into) override {
    constexpr size_t kMost = size_t{1} << 30;  // the most that zlib counts
    into = into.first(std::min(into.size(), kMost));
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(into.size());
    while (stream_.avail_out > 0 && !ended_) step();
    return into.size() - stream_.avail_out;
  }

  int64_t used_bytes() const override { return file_->used_bytes() - stream_.avail_in; }

 private:
  void step() {
    if (stream_.avail_in == 0) refill();
    if (between_) {
      begin_next();
      return;
    }
    check(stream_.avail_in > 0, "is cut short");
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    check(result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR, "is damaged");
    between_ = result == Z_STREAM_END;
  }

  // Behind a part: nothing, another part, or zeros, with which tapes and some writers fill blocks.
  void begin_next() {
    while (stream_.avail_in > 0 && *stream_.next_in == 0) {
      ++stream_.next_in;
      --stream_.avail_in;
      zeros_ = true;
    }
    if (stream_.avail_in == 0) {
      ended_ = at_end_;
      return;
    }
    check(!zeros_ && *stream_.next_in == 0x1f, "has other bytes behind its end, or is damaged");
    check(::inflateReset(&stream_) == Z_OK, "is damaged");
    between_ = false;
  }

  void refill() {
    stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    stream_.avail_in = static_cast<uInt>(file_->read(buffer_));
    at_end_ = stream_.avail_in == 0;
  }

  void check(bool good, const char* what) const {
    AXONN_CHECK(good, "data.packed", file_->name(), ", packed by gzip, ", what, " at byte ", used_bytes(),
                "; copy it again, gzip -t tests it");
  }

  std::unique_ptr<FileSource> file_;
  std::vector<char> buffer_;
  z_stream stream_ = {};
  bool between_ = false, zeros_ = false, at_end_ = false, ended_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> gzip_source(std::unique_ptr<FileSource> file) {
  return std::make_unique<GzipSource>(std::move(file));
}

}  // namespace axonn
