#include "checkpoint/read/read_together.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

namespace axonn {
namespace {

constexpr int64_t kMessageBytes = int64_t{4} << 20;

int64_t bytes_of(std::span<const Range> ranges) {
  int64_t bytes = 0;
  for (const Range& range : ranges) bytes += range.size();
  return bytes;
}

// The bytes of some ranges of a file, one after the other, with their places.
class Stream {
 public:
  explicit Stream(std::span<const Range> ranges) : ranges_(ranges), left_(bytes_of(ranges)) {}

  int64_t next_message() const { return std::min(left_, kMessageBytes); }

  // Gives the pieces of the file that a message is made of: their places and bytes in the message.
  void pass(std::span<std::byte> message, const std::function<void(int64_t place, std::span<std::byte>)>& piece) {
    left_ -= std::ssize(message);
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
  int64_t left_;
  int64_t done_ = 0;  // bytes of the first range
};

// Reads a part from its first to its last byte, and gives bytes of it in that order.
class ForwardReader {
 public:
  ForwardReader(const std::filesystem::path& directory, const Manifest& manifest, const Manifest::Part& part)
      : bytes_(directory, manifest, part) {}

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

// One part of a round: a rank reads and sends it, or takes what it wants of it.
struct Turn {
  explicit Turn(const PartToRead& part) : stream(part.sent), delivery(part.wanted) {}
  Stream stream;
  Delivery delivery;
};

std::span<std::byte> bytes_in(const at::Tensor& buffer, int64_t bytes) {
  return {static_cast<std::byte*>(buffer.mutable_data_ptr()), static_cast<size_t>(bytes)};
}

class Round {
 public:
  Round(Communicator& group, const std::filesystem::path& directory, const Manifest& manifest,
        std::span<const PartToRead> parts, std::exception_ptr& failed)
      : group_(group), failed_(failed), turns_(parts.begin(), parts.end()) {
    const auto rank = static_cast<size_t>(group.rank());
    if (rank >= parts.size()) return;
    attempt([&] { mine_.emplace(directory, manifest, manifest.parts[parts[rank].part]); });
  }

  // One message of each part that has one left; false when none has.
  bool pass_messages(const at::Tensor& read, const at::Tensor& received) {
    const auto rank = static_cast<size_t>(group_.rank());
    bool some = false;
    Stream ahead = rank < turns_.size() ? turns_[rank].stream : Stream({});
    if (const int64_t bytes = ahead.next_message(); bytes > 0 && mine_)
      attempt([&] {
        ahead.pass(bytes_in(read, bytes), [&](int64_t place, std::span<std::byte> into) { mine_->copy(place, into); });
      });
    for (size_t i = 0; i < turns_.size(); ++i) {
      const int64_t bytes = turns_[i].stream.next_message();
      if (bytes == 0) continue;
      some = true;
      const at::Tensor message = (i == rank ? read : received).narrow(0, 0, bytes);
      group_.broadcast(message, static_cast<int>(i)).wait();
      turns_[i].stream.pass(bytes_in(message, bytes), [&](int64_t place, std::span<std::byte> piece) {
        turns_[i].delivery.take({place, piece});
      });
    }
    return some;
  }

  void check() {
    if (mine_) attempt([&] { mine_->check(); });
  }

 private:
  void attempt(const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      if (!failed_) failed_ = std::current_exception();
      mine_.reset();
    }
  }

  Communicator& group_;
  std::exception_ptr& failed_;
  std::vector<Turn> turns_;
  std::optional<ForwardReader> mine_;
};

}  // namespace

std::exception_ptr read_together(Communicator& group, const std::filesystem::path& directory, const Manifest& manifest,
                                 std::span<const PartToRead> parts) {
  std::exception_ptr failed;
  const at::Tensor read = at::empty({kMessageBytes}, at::kByte), received = at::empty({kMessageBytes}, at::kByte);
  const auto members = static_cast<size_t>(group.size());
  for (size_t first = 0; first < parts.size(); first += members) {
    Round round(group, directory, manifest, parts.subspan(first, std::min(members, parts.size() - first)), failed);
    while (round.pass_messages(read, received)) {
    }
    round.check();
  }
  return failed;
}

}  // namespace axonn
