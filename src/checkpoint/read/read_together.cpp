#include "checkpoint/read/read_together.hpp"

#include <algorithm>
#include <cstring>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

namespace axonn {
namespace {

int64_t bytes_of(std::span<const Range> ranges) {
  int64_t bytes = 0;
  for (const Range& range : ranges) bytes += range.size();
  return bytes;
}

// The bytes of some ranges of a file, one after the other, with their places.
class Stream {
 public:
  explicit Stream(std::span<const Range> ranges) : ranges_(ranges) {}

  // Gives the pieces of the file that the next message is made of: their places, and their bytes in
  // the message.
  void pass(std::span<std::byte> message, const std::function<void(int64_t place, std::span<std::byte>)>& piece) {
    while (!message.empty()) {
      const int64_t place = ranges_.front().begin + done_;
      const int64_t size = std::min(std::ssize(message), ranges_.front().end - place);
      piece(place, message.first(static_cast<size_t>(size)));
      message = message.subspan(static_cast<size_t>(size));
      done_ += size;
      if (place + size < ranges_.front().end) continue;
      ranges_ = ranges_.subspan(1);
      done_ = 0;
    }
  }

 private:
  std::span<const Range> ranges_;
  int64_t done_ = 0;  // bytes of the first range
};

// Reads a part from its first to its last byte, and gives bytes of it in that order.
class ForwardReader {
 public:
  ForwardReader(PartFiles& files, const Manifest::Part& part) : bytes_(files, part) {}

  void copy(int64_t place, std::span<std::byte> into) {
    while (!into.empty()) {
      const int64_t have = piece_.place + std::ssize(piece_.bytes) - place;
      if (piece_.bytes.empty() || have <= 0) {
        const auto next = bytes_.next();
        AXONN_ASSERT(next.has_value(), "bytes behind a part");
        piece_ = *next;
        continue;
      }
      const auto size = static_cast<size_t>(std::min(have, std::ssize(into)));
      std::memcpy(into.data(), piece_.bytes.data() + (place - piece_.place), size);
      into = into.subspan(size);
      place += static_cast<int64_t>(size);
    }
  }
  void check() { bytes_.check(); }

 private:
  PartBytes bytes_;
  FilePiece piece_;
};

std::span<std::byte> bytes_in(const at::Tensor& buffer) {
  return {static_cast<std::byte*>(buffer.mutable_data_ptr()), buffer.nbytes()};
}

// One part of a round: a rank reads and sends it, or takes what it wants of it.
struct Turn {
  explicit Turn(const PartToRead& part) : bytes(bytes_of(part.sent)), stream(part.sent), delivery(part.wanted) {
    for (at::Tensor& buffer : buffers) buffer = at::empty({std::min(bytes, kReadMessageBytes)}, at::kByte);
  }
  at::Tensor message(int64_t number) const {
    const int64_t left = std::max<int64_t>(bytes - number * kReadMessageBytes, 0);
    return buffers[number % 2].narrow(0, 0, std::min(left, kReadMessageBytes));
  }

  int64_t bytes;
  Stream stream;
  Delivery delivery;
  at::Tensor buffers[2];
};

// Parts that are read at the same time, each by one rank, in messages. While one message of each is
// under way, the next is read.
class Round {
 public:
  Round(Communicator& group, PartFiles& files, std::span<const PartToRead> parts, std::exception_ptr& failed)
      : group_(group), failed_(failed), turns_(parts.begin(), parts.end()) {
    const auto rank = static_cast<size_t>(group.rank());
    if (rank >= parts.size()) return;
    attempt([&] { reader_.emplace(files, files.manifest().parts[parts[rank].part]); });
    to_read_.emplace(parts[rank].sent);
  }

  void run() {
    read(0);
    for (int64_t number = 0; post(number); ++number) {
      read(number + 1);
      deliver(number);
    }
    if (reader_) attempt([&] { reader_->check(); });
  }

 private:
  // This rank's own message.
  void read(int64_t number) {
    if (!reader_) return;
    const at::Tensor message = turns_[static_cast<size_t>(group_.rank())].message(number);
    attempt([&] {
      to_read_->pass(bytes_in(message), [&](int64_t place, std::span<std::byte> into) { reader_->copy(place, into); });
    });
  }

  bool post(int64_t number) {
    posted_.clear();
    for (size_t i = 0; i < turns_.size(); ++i)
      if (const at::Tensor message = turns_[i].message(number); message.numel() > 0)
        posted_.emplace_back(i, group_.broadcast(message, static_cast<int>(i)));
    return !posted_.empty();
  }

  void deliver(int64_t number) {
    for (auto& [i, sent] : posted_) {
      sent.wait();
      Turn& turn = turns_[i];
      turn.stream.pass(bytes_in(turn.message(number)),
                       [&](int64_t place, std::span<std::byte> piece) { turn.delivery.take({place, piece}); });
    }
  }

  void attempt(const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      if (!failed_) failed_ = std::current_exception();
      reader_.reset();
    }
  }

  Communicator& group_;
  std::exception_ptr& failed_;
  std::vector<Turn> turns_;
  std::optional<ForwardReader> reader_;
  std::optional<Stream> to_read_;
  std::vector<std::pair<size_t, Request>> posted_;  // turns
};

}  // namespace

std::vector<uint8_t> greatest(const ReplicaGroups& groups, const GridShape& shape, std::vector<uint8_t> mine) {
  if (mine.empty()) return mine;
  const at::Tensor all = at::empty({std::ssize(mine)}, at::kByte);
  auto* const numbers = all.mutable_data_ptr<uint8_t>();
  std::ranges::copy(mine, numbers);
  for (const Axis axis : kAxes)
    if (shape[axis] > 1) groups(axis).all_reduce(all, ReduceOp::max).wait();
  return {numbers, numbers + all.numel()};
}

std::exception_ptr read_together(Communicator& group, PartFiles& files, std::span<const PartToRead> parts) {
  std::exception_ptr failed;
  const auto readers = static_cast<size_t>(std::min(group.size(), kMostReaders));
  for (size_t first = 0; first < parts.size(); first += readers)
    Round(group, files, parts.subspan(first, std::min(readers, parts.size() - first)), failed).run();
  return failed;
}

}  // namespace axonn
