#include "train/tensorboard/record_file.hpp"

#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/sentence.hpp"
#include "train/tensorboard/little_endian.hpp"

namespace axonn {
namespace {

// Of a byte, for CRC-32C (Castagnoli), whose bits are in reverse.
constexpr std::array<uint32_t, 256> kRemainders = [] {
  constexpr uint32_t kPolynomial = 0x82F63B78;
  std::array<uint32_t, 256> remainders{};
  for (uint32_t byte = 0; byte < remainders.size(); ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest % 2 == 1 ? kPolynomial : 0);
    remainders[byte] = rest;
  }
  return remainders;
}();

// The form of the checksum in these records, so that a checksum of data with checksums is good too.
uint32_t masked_crc(std::string_view bytes) {
  constexpr uint32_t kMask = 0xA282EAD8;
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = crc >> 8 ^ kRemainders[(crc ^ static_cast<uint8_t>(byte)) & 0xFF];
  return std::rotr(~crc, 15) + kMask;
}

}  // namespace

RecordFile::RecordFile(std::filesystem::path path, Seconds between_writes)
    : path_(std::move(path)), between_writes_(between_writes), out_(path_, std::ios::binary | std::ios::trunc) {
  AXONN_CHECK(out_, "train.tensorboard", "cannot write ", path_.string(), ": ", reason_and_cure(errno));
}

RecordFile::~RecordFile() {
  try {
    flush();
  } catch (const std::exception& error) {
    log::warn("the last events for TensorBoard are lost: ", sentence_of(error));
  }
}

void RecordFile::add(std::string_view record) {
  std::string length;
  append_little_endian(length, uint64_t{record.size()});
  kept_ += length;
  append_little_endian(kept_, masked_crc(length));
  kept_ += record;
  append_little_endian(kept_, masked_crc(record));
  if (kept_.size() > kMostKept || Clock::now() - written_ >= between_writes_) flush();
}

void RecordFile::flush() {
  written_ = Clock::now();
  if (kept_.empty()) return;
  out_ << std::exchange(kept_, {}) << std::flush;
  if (!out_) throw BackendError("train.tensorboard", "cannot write " + path_.string() + ": " + reason_and_cure(errno));
}

}  // namespace axonn
