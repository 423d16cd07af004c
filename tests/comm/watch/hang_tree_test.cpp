// Letters about a hang go over the tree of ranks.
#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "transport/local_transport.hpp"
#include "transport/rank_tree.hpp"
#include "comm/watch/hang_enquiry.hpp"

namespace axonn {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 40;        // three levels below rank 0
constexpr int kMostLetters = 20;  // a rank sends them; rank 0 of a star sends 78

TEST(RankTree, HasEveryRankOnce) {
  for (const int ranks : {1, 2, 5, 6, 21, 22, 40}) {
    std::set<int> found = {0};
    for (int rank = 0; rank < ranks; ++rank) {
      int below = 1;
      for (const int child : children_of(rank, ranks)) {
        EXPECT_EQ(parent_of(child), rank);
        EXPECT_TRUE(found.insert(child).second);
        below += ranks_below(child, ranks);
      }
      EXPECT_EQ(ranks_below(rank, ranks), below) << rank << " of " << ranks;
    }
    EXPECT_EQ(found.size(), static_cast<size_t>(ranks));
    EXPECT_EQ(tree_levels(ranks), ranks == 1 ? 0 : ranks <= 5 ? 1 : ranks <= 21 ? 2 : 3);
  }
  EXPECT_TRUE(is_below(24, 5) && is_below(24, 1) && is_below(24, 0) && is_below(24, 24));
  EXPECT_FALSE(is_below(24, 4) || is_below(24, 2) || is_below(5, 24));
}

// Counts what a rank sends.
class CountingTransport final : public Transport {
 public:
  explicit CountingTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  int sent() const { return sent_; }

  std::string_view name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int ranks() const override { return inner_->ranks(); }
  Ticket send(int peer, uint32_t channel, const void* data, size_t bytes) override {
    ++sent_;
    return inner_->send(peer, channel, data, bytes);
  }
  Ticket receive(int peer, uint32_t channel, void* data, size_t bytes) override {
    return inner_->receive(peer, channel, data, bytes);
  }
  bool test(Ticket ticket) override { return inner_->test(ticket); }
  std::optional<Letter> letter() override { return inner_->letter(); }
  void abort(int exit_status) noexcept override { inner_->abort(exit_status); }

 private:
  std::unique_ptr<Transport> inner_;
  int sent_ = 0;
};

// The ranks of a job in an all-reduce of all, which some have not called.
class Job {
 public:
  Job(std::set<int> stopped, std::set<int> computing) : stopped_(std::move(stopped)), verdicts_(kRanks) {
    const auto hub = make_local_hub(kRanks);
    for (int rank = 0; rank < kRanks; ++rank) {
      transports_.push_back(std::make_unique<CountingTransport>(make_local_transport(hub, rank)));
      enquiries_.push_back(std::make_unique<HangEnquiry>(
          *transports_.back(), recorder_, [rank, waits = !computing.contains(rank)] { return state(rank, waits); }, 60s,
          HangEnquiry::Answer(), [this] { return now_; }));
    }
  }

  HangEnquiry& rank(int rank) { return *enquiries_[static_cast<size_t>(rank)]; }
  int letters_of(int rank) const { return transports_[static_cast<size_t>(rank)]->sent(); }

  // Until every rank that is not stopped has the error, which is the same on all.
  std::string error() {
    const auto deadline = now_ + 30s;
    for (bool all = false; !all && now_ < deadline; now_ += 5ms) {
      all = true;
      for (int i = 0; i < kRanks; ++i) {
        auto& verdict = verdicts_[static_cast<size_t>(i)];
        if (!stopped_.contains(i) && !verdict) verdict = rank(i).poll();
        all = all && (stopped_.contains(i) || verdict);
      }
    }
    for (int i = 1; i < kRanks; ++i)
      if (!stopped_.contains(i)) {
        EXPECT_EQ(verdicts_[static_cast<size_t>(i)].value_or("none"), verdicts_[0]) << "rank " << i;
      }
    return verdicts_[0].value_or("");
  }

 private:
  static HangState state(int rank, bool waits) {
    HangState result{.rank = rank, .host = "node", .step = 31, .waits = waits, .open = {}, .last = {}};
    if (!waits) return result;
    std::vector<int> all(kRanks);
    std::iota(all.begin(), all.end(), 0);
    const CallRecord call{.collective = "all-reduce", .group = "world", .tag = "h.3", .number = 17, .channel = 4};
    result.open.push_back({.call = call, .members = RankRuns(all)});
    result.last_numbers[call.channel] = call.number;
    return result;
  }

  HangEnquiry::Clock::time_point now_;  // the ranks', which take turns
  const FlightRecorder recorder_;
  const std::set<int> stopped_;
  std::vector<std::optional<std::string>> verdicts_;
  std::vector<std::unique_ptr<CountingTransport>> transports_;
  std::vector<std::unique_ptr<HangEnquiry>> enquiries_;
};

TEST(HangTree, NoRankWritesToMany) {
  Job job({}, {17});
  for (int rank = 0; rank < kRanks; ++rank)
    if (rank != 17) job.rank(rank).begin("rank 0 is silent");
  EXPECT_TRUE(job.error().ends_with(" made no progress for 60 s: rank 17 has not called it"));
  for (int rank = 0; rank < kRanks; ++rank) {
    RecordProperty("letters_of_rank_" + std::to_string(rank), job.letters_of(rank));
    EXPECT_LE(job.letters_of(rank), kMostLetters) << "rank " << rank;
  }
}

// Rank 21 is below rank 5, which is below rank 1. Its alarm must come up, the question down, the
// answers up and the verdict down, all of it around the two.
TEST(HangTree, StoppedRanksAreNamedAndHideNobody) {
  Job job({1, 5}, {});
  job.rank(21).begin("rank 0 is silent");
  const std::string error = job.error();
  EXPECT_TRUE(
      error.ends_with(" made no progress for 60 s: ranks 1 and 5 do not answer: they are stopped, or their "
                      "hosts are gone"))
      << error;
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_LE(job.letters_of(rank), 2 * kMostLetters) << "rank " << rank;
}

// Rank 39 is below rank 9, which is below rank 2.
TEST(HangTree, WhoEndsTheJobTellsAll) {
  Job job({2}, {});
  job.rank(39).end_job("rank 39 calls something else");
  EXPECT_EQ(job.error(), "rank 39 calls something else");
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_LE(job.letters_of(rank), kMostLetters) << "rank " << rank;
}

TEST(HangTree, ARankAnswersForThoseBelowIt) {
  const auto answer = [](int rank) {
    return HangLetter{.kind = HangLetter::Kind::answer,
                      .states = {{.rank = rank, .host = "node", .open = {}, .last = {}}},
                      .verdict = {}}
        .bytes();
  };
  EXPECT_EQ(HangLetter::read(answer(24), 1, kRanks).states.at(0).rank, 24);
  EXPECT_THROW(HangLetter::read(answer(24), 2, kRanks), BackendError);
  EXPECT_THROW(HangLetter::read(answer(1), 5, kRanks), BackendError);
  EXPECT_THROW(HangLetter::read(answer(kRanks), 0, kRanks), BackendError);
}

}  // namespace
}  // namespace axonn
