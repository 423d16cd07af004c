// Bytes of a peer, cut anywhere, beside receives at any moment.
#include "transport/tcp/tcp_inbox.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "axonn/core/error.hpp"
#include "support/fuzz.hpp"

namespace axonn {
namespace {

using fuzz::Random;

constexpr size_t kMostBytes = 20'000;
constexpr uint32_t kChannels = 6;

struct Message {
  uint32_t channel;
  std::string data;

  std::string wire() const {
    const tcp::Header header{.bytes = data.size(), .channel = channel};
    return std::string(reinterpret_cast<const char*>(&header), sizeof header) + data;
  }
};

std::vector<Message> some_messages(Random& random) {
  std::vector<Message> list(random.from(1, 30));
  for (Message& message : list) {
    const size_t longest[] = {0, 1, 40, 3000};
    message = {static_cast<uint32_t>(random.below(kChannels)),
               std::string(random.from(0, longest[random.below(4)]), ' ')};
    std::ranges::generate(message.data, [&] { return random.byte(); });
  }
  return list;
}

// An inbox, the receives of its rank, and what must be in them.
class Reader {
 public:
  explicit Reader(std::vector<Message> messages) : messages_(std::move(messages)) {
    for (const Message& message : messages_) wanted_[message.channel].push_back(&message);
  }

  // The channel's next message. Of letters, only when one has been told of.
  void post(uint32_t channel, size_t extra_bytes = 0) {
    auto& wanted = wanted_[channel];
    if (wanted.empty()) return;
    if (channel == Transport::kLetters) {
      if (letters_.empty()) return;
      letter_sizes_.push_back(letters_.front().bytes);
      letters_.pop_front();
    }
    const std::string& expected = wanted.front()->data;
    Receive& receive = receives_.emplace_back();
    receive = {std::string(expected.size() + extra_bytes, '?'), &expected, tickets_.ticket(tickets_.new_slot())};
    wanted.pop_front();
    inbox_.receive(channel, reinterpret_cast<std::byte*>(receive.data.data()), receive.data.size(),
                   static_cast<uint32_t>(receive.ticket));
  }
  void post_all() {
    for (const auto& [channel, wanted] : wanted_)
      while (!wanted.empty()) post(channel);
  }

  // Gives the inbox a part of `bytes` from `at` on.
  void arrive(size_t connection, const std::string& bytes, size_t& at, Random& random) {
    const auto room = inbox_.room(connection);
    ASSERT_FALSE(room.empty());
    const size_t most = std::min(room.size(), bytes.size() - at),
                 count = random.one_in(4) ? most : random.from(1, most);
    std::memcpy(room.data(), bytes.data() + at, count);
    at += count;
    inbox_.added(connection, count);
  }

  void check_all_here() {
    EXPECT_EQ(inbox_.posted(), 0U);
    std::vector<size_t> sizes;
    for (const Message& message : messages_)
      if (message.channel == Transport::kLetters) sizes.push_back(message.data.size());
    EXPECT_EQ(letter_sizes_, sizes);
    for (const Receive& receive : receives_) {
      EXPECT_TRUE(tickets_.done(receive.ticket));
      EXPECT_EQ(receive.data, *receive.expected);
    }
  }

  tcp::Inbox& inbox() { return inbox_; }

 private:
  struct Receive {
    std::string data;
    const std::string* expected = nullptr;
    Transport::Ticket ticket = 0;
  };

  const std::vector<Message> messages_;
  std::map<uint32_t, std::deque<const Message*>> wanted_;  // not posted yet, by channel
  std::deque<Receive> receives_;
  tcp::Tickets tickets_;
  std::deque<Transport::Letter> letters_;
  std::vector<size_t> letter_sizes_;  // as told
  tcp::Inbox inbox_{
      {.rank = 0, .peer = 1, .peer_name = "rank 1", .most_unexpected_bytes = kMostBytes}, tickets_, letters_};
};

size_t bytes_of(const std::vector<Message>& messages) {
  size_t sum = 0;
  for (const Message& message : messages) sum += tcp::Inbox::kMessageBytes + message.data.size();
  return sum;
}

// Each message comes over either connection: a peer changes it when nothing is under way.
TEST(InboxFuzz, EveryMessageReachesItsReceive) {
  fuzz::rounds(5'000, [](Random& random) {
    auto messages = some_messages(random);
    while (bytes_of(messages) > kMostBytes) messages.pop_back();
    Reader reader(messages);
    for (const Message& message : messages) {
      const std::string wire = message.wire();
      for (size_t at = 0, connection = random.below(2); at < wire.size();) {
        if (random.one_in(3)) reader.post(static_cast<uint32_t>(random.below(kChannels)));
        reader.arrive(connection, wire, at, random);
      }
    }
    reader.post_all();
    reader.check_all_here();
  });
}

// They are an error or messages; the sanitizers see the rest.
TEST(InboxFuzz, WrongBytesAreAnError) {
  size_t errors = 0;
  fuzz::rounds(10'000, [&](Random& random) {
    const auto messages = some_messages(random);
    std::string wire;
    for (const Message& message : messages) wire += message.wire();
    wire = fuzz::mutated(wire, random);
    Reader reader(messages);
    try {
      for (size_t at = 0; at < wire.size();) {
        if (random.one_in(3)) reader.post(static_cast<uint32_t>(random.below(kChannels)), random.one_in(50) ? 1 : 0);
        reader.arrive(0, wire, at, random);
      }
    } catch (const BackendError&) {
      ++errors;
    }
  });
  EXPECT_GT(errors, 500U);
}

// A message that has no receive takes memory even if it is empty.
TEST(InboxFuzz, MessagesWithoutAReceiveHaveALimit) {
  fuzz::rounds(100, [](Random& random) {
    Reader reader({});
    const size_t longest = 1000 * random.below(3);
    size_t bytes = 0;
    const auto flood = [&] {
      for (size_t messages = 0; messages < kMostBytes; ++messages) {
        const Message message{static_cast<uint32_t>(random.below(kChannels)),
                              std::string(random.from(0, longest), 'x')};
        const std::string wire = message.wire();
        for (size_t at = 0; at < wire.size();) reader.arrive(0, wire, at, random);
        bytes += tcp::Inbox::kMessageBytes + message.data.size();
      }
    };
    EXPECT_THROW(flood(), BackendError);
    EXPECT_LE(bytes, kMostBytes);
  });
}

// The rest of a message whose connection has ended never comes. Later bytes are not taken for it.
TEST(InboxFuzz, ConnectionThatEndsWithinAMessageIsAnErrorForTheNext) {
  fuzz::rounds(1'000, [](Random& random) {
    const Message message{1, std::string(random.from(1, 100), 'x')};
    Reader reader({message, message});
    const std::string wire = message.wire();
    const size_t end = random.from(0, wire.size());
    for (size_t at = 0; at < end;) reader.arrive(0, wire.substr(0, end), at, random);
    if (end > 0 && end < wire.size()) {
      EXPECT_THROW(reader.inbox().restart(0), BackendError);
    } else {
      EXPECT_NO_THROW(reader.inbox().restart(0));
    }
  });
}

}  // namespace
}  // namespace axonn
