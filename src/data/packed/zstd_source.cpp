#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include <zstd.h>
#include <zstd_errors.h>

#include "axonn/core/error.hpp"
#include "data/packed/packed_sources.hpp"

namespace axonn {
namespace {

// log2 of the largest window for which memory is taken. Files of zstd --long have up to 2 GiB. But
// a small file gains nothing by so much, so a damaged or hostile one does not get it.
int most_window(int64_t file_bytes) {
  constexpr int64_t kBytesPerByte = 64;  // text of a packed byte
  constexpr int kAlways = 27;            // unzstd takes as much without a flag
  return std::clamp(static_cast<int>(std::bit_width(static_cast<uint64_t>(file_bytes * kBytesPerByte))), kAlways,
                    ::ZSTD_dParam_getBounds(ZSTD_d_windowLogMax).upperBound);
}

class ZstdSource : public ByteSource {
 public:
  explicit ZstdSource(std::unique_ptr<FileSource> file)
      : file_(std::move(file)), stream_(::ZSTD_createDStream()), buffer_(::ZSTD_DStreamInSize()) {
    AXONN_ASSERT(stream_ != nullptr, "of zstd");
    ::ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, most_window(file_->size()));
  }
  ~ZstdSource() override { ::ZSTD_freeDStream(stream_); }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

  size_t read(std::span<char> into) override {
    ZSTD_outBuffer out = {into.data(), into.size(), 0};
    while (out.pos < out.size) {
      if (in_.pos == in_.size && !full_) {
        in_ = {buffer_.data(), file_->read(buffer_), 0};
        if (in_.size == 0) {
          check(!in_frame_, "is cut short");
          break;
        }
      }
      const size_t result = ::ZSTD_decompressStream(stream_, &out, &in_);
      AXONN_CHECK(::ZSTD_getErrorCode(result) != ZSTD_error_frameParameter_windowTooLarge, "data.packed", file_->name(),
                  ", packed by zstd, asks for more memory than so small a file can need; pack it again",
                  " without --long");
      check(::ZSTD_isError(result) == 0, "is damaged, or has other bytes behind its end,");
      in_frame_ = result != 0;
      full_ = in_frame_ && out.pos == out.size;  // it may hold more, without further input
    }
    return out.pos;
  }

  int64_t used_bytes() const override { return file_->used_bytes() - static_cast<int64_t>(in_.size - in_.pos); }

 private:
  void check(bool good, const char* what) const {
    AXONN_CHECK(good, "data.packed", file_->name(), ", packed by zstd, ", what, " at byte ", used_bytes(),
                "; copy it again, zstd -t tests it");
  }

  std::unique_ptr<FileSource> file_;
  ZSTD_DStream* stream_;
  std::vector<char> buffer_;
  ZSTD_inBuffer in_ = {nullptr, 0, 0};
  bool in_frame_ = false, full_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> zstd_source(std::unique_ptr<FileSource> file) {
  return std::make_unique<ZstdSource>(std::move(file));
}

}  // namespace axonn
