#include "comm/watch/tree_letters.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "transport/rank_tree.hpp"

namespace axonn {
namespace {

// Nothing when it cannot be read: its sender is one that has not written.
std::optional<HangLetter> letter_in(const std::vector<uint8_t>& bytes, int from, int ranks) {
  try {
    return HangLetter::read(bytes, from, ranks);
  } catch (const BackendError& error) {
    log::warn(error.sentence());
    return std::nullopt;
  }
}

}  // namespace

void TreeLetters::send(int rank, const HangLetter& letter) {
  Sent& sent = sent_.emplace_back(Sent{.bytes = letter.bytes(), .ticket = 0});
  sent.ticket = transport_.send(rank, Transport::kLetters, sent.bytes.data(), sent.bytes.size());
}

void TreeLetters::send_up(const HangLetter& letter) {
  if (transport_.rank() > 0) pass(parent_of(transport_.rank()), letter);
}

void TreeLetters::send_down(const HangLetter& letter) {
  for (const int child : children_of(transport_.rank(), transport_.ranks())) pass(child, letter);
}

void TreeLetters::pass(int rank, const HangLetter& letter) {
  send(rank, letter);
  if (silent_.contains(rank))
    go_around(rank, letter);
  else
    unheard_.push_back({.rank = rank, .letter = letter, .since = now_()});
}

void TreeLetters::go_around(int rank, const HangLetter& letter) {
  if (rank < transport_.rank()) {
    if (rank > 0) pass(parent_of(rank), letter);
  } else {
    for (const int child : children_of(rank, transport_.ranks())) pass(child, letter);
  }
}

void TreeLetters::heard_by(int rank) {
  silent_.erase(rank);
  const auto first = std::ranges::find(unheard_, rank, &Unheard::rank);
  if (first != unheard_.end()) unheard_.erase(first);
}

void TreeLetters::poll() {
  read();
  std::erase_if(sent_, [this](const Sent& sent) { return transport_.test(sent.ticket); });
  while (!unheard_.empty() && now_() - unheard_.front().since > kHeard) {
    const Unheard late = std::move(unheard_.front());
    unheard_.pop_front();
    silent_.insert(late.rank);
    go_around(late.rank, late.letter);
  }
}

// A letter is read when all of it is here.
void TreeLetters::read() {
  while (const auto letter = transport_.letter()) {
    Arriving& next = arriving_.emplace_back();
    next.from = letter->from;
    next.bytes.resize(letter->bytes);
    next.ticket = transport_.receive(next.from, Transport::kLetters, next.bytes.data(), next.bytes.size());
  }
  for (size_t i = 0; i < arriving_.size();) {
    if (!transport_.test(arriving_[i].ticket)) {
      ++i;
      continue;
    }
    const Arriving arrived = std::move(arriving_[i]);
    arriving_.erase(arriving_.begin() + static_cast<ptrdiff_t>(i));
    read(arrived);
  }
}

// The acknowledgement comes last, as it may fail: its receiver may have ended.
void TreeLetters::read(const Arriving& arrived) {
  auto letter = letter_in(arrived.bytes, arrived.from, transport_.ranks());
  if (!letter) return;
  if (letter->kind == HangLetter::Kind::heard) return heard_by(arrived.from);
  const bool over_tree = letter->over_tree();
  take_(arrived.from, *std::move(letter));
  if (over_tree) send(arrived.from, {.kind = HangLetter::Kind::heard});
}

}  // namespace axonn
