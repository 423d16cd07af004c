#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "axonn/comm/environment.hpp"
#include "axonn/comm/production.hpp"
#include "axonn/core/error.hpp"
#include "axonn/grid/block_owners.hpp"
#include "comm/collectives/ring_segments.hpp"
#include "comm/host/channel_registry.hpp"
#include "comm/host/progress_engine.hpp"
#include "comm/host_communicator.hpp"
#include "transport/local_transport.hpp"
#include "comm/watch/flight_recorder.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

at::Tensor ones(int64_t elements) { return at::full({elements}, 1.0, at::kFloat); }

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const BackendError& error) {
    return error.what();
  }
  return "no error";
}

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(ProgressEngine, SleepsWhenNothingIsOutstanding) {
  run_local(2, [](Environment& environment) {
    environment.world().all_reduce(ones(100'000)).wait();
    environment.world().barrier().wait();
    const auto before = environment.engine_counters();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const auto after = environment.engine_counters();
    EXPECT_LE(after.polls - before.polls, 1);  // one that was under way
    EXPECT_LE(after.naps - before.naps, 1);
    EXPECT_LE(after.wake_ups - before.wake_ups, 1);
  });
}

// A rank with an engine, beside ranks that the test itself moves.
class OneEngine {
 public:
  OneEngine(int ranks, ProgressEngine::Options options)
      : hub_(make_local_hub(ranks)),
        engine_([this] { return make_local_transport(hub_, 0); }, options),
        channels_(engine_.transport().largest_channel()) {
    Group group{.axes = {}, .ranks = std::vector<int>(static_cast<size_t>(ranks)), .index = 0};
    std::iota(group.ranks.begin(), group.ranks.end(), 0);
    const auto channel = channels_.make(group, "world", 1);
    id_ = channel->ids[static_cast<size_t>(Priority::normal)];
    labels_ = channel->labels;
    world_ = std::make_unique<HostCommunicator>(engine_, channels_, channel, nullptr);
  }
  ~OneEngine() { engine_.abandon(); }

  std::unique_ptr<Transport> other(int rank) { return make_local_transport(hub_, rank); }
  ProgressEngine& engine() { return engine_; }
  Communicator& world() { return *world_; }
  // The transport's channel of floats that rank 0 sends or receives.
  uint32_t channel(int64_t bytes) const {
    const FlightRecorder::Call call{
        .collective = "send", .bytes = bytes, .details = {.type = static_cast<int8_t>(at::kFloat)}};
    return labels_.channel(id_, signature_of(call, 0, 0));
  }

 private:
  uint32_t id_ = 0;
  CallLabels labels_;
  std::shared_ptr<LocalHub> hub_;
  ProgressEngine engine_;
  ChannelRegistry channels_;
  std::unique_ptr<HostCommunicator> world_;
};

// Naps of a minute, between which nothing would move: rank 1 has not sent what rank 0 receives.
TEST(ProgressEngine, NewOperationEndsANap) {
  using namespace std::chrono_literals;
  OneEngine rank_0(2, {.ends_process = false, .shortest_nap = 60s, .longest_nap = 60s});
  const auto rank_1 = rank_0.other(1);
  const auto never = rank_0.world().receive(ones(10), 1);
  while (rank_0.engine().counters().naps == 0) std::this_thread::yield();
  const auto sent = rank_0.world().send(ones(1), 1);
  float got = 0;
  const auto ticket = rank_1->receive(0, rank_0.channel(sizeof got), &got, sizeof got);
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!rank_1->test(ticket) && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(got, 1.0F);
}

// A message comes every 20 ms. Naps that begin with the shortest one would be 11 per message.
// More than a nap per message. Naps of the longest time would be five per group. A loaded machine
// naps longer than asked, so one quiet group is enough.
TEST(ProgressEngine, NapsFollowThePaceOfMessages) {
  using namespace std::chrono_literals;
  constexpr int kGroup = 25, kGroups = 6;
  OneEngine rank_0(2, {.ends_process = false, .shortest_nap = 10us, .longest_nap = 100ms});
  const auto rank_1 = rank_0.other(1);
  std::vector<Request> requests;
  const std::vector<float> message(10, 1.0F);
  const auto naps_of_group = [&] {
    const auto before = rank_0.engine().counters().naps;
    for (int i = 0; i < kGroup; ++i) requests.push_back(rank_0.world().receive(ones(10), 1));
    for (int i = 0; i < kGroup; ++i) {
      std::this_thread::sleep_for(20ms);
      rank_1->send(0, rank_0.channel(10 * sizeof(float)), message.data(), 10 * sizeof(float));
    }
    return rank_0.engine().counters().naps - before;
  };
  naps_of_group();  // learns the pace
  bool follow = false;
  for (int group = 1; group < kGroups && !follow; ++group) {
    const auto naps = naps_of_group();
    EXPECT_LT(naps, 8 * kGroup);
    follow = naps > kGroup;
    RecordProperty("naps", static_cast<int>(naps));
  }
  EXPECT_TRUE(follow);
  for (Request& request : requests) request.wait();
}

// The one before it in its queue moves all the time. Rank 0 asks the others who hangs.
TEST(ProgressEngine, EveryCallOfAQueueIsWatched) {
  using namespace std::chrono_literals;
  constexpr int kMessages = 50, kMessageBytes = RingSegments::kLargestBytes;  // as PointToPoint sends
  OneEngine rank_0(3, {.timeout = 1s, .ends_process = false});
  const auto rank_1 = rank_0.other(1);
  const auto moving = rank_0.world().receive(ones(int64_t{kMessages} * kMessageBytes / 4), 1);
  const auto stalled = rank_0.world().receive(ones(1), 2);
  const std::vector<std::byte> data(kMessageBytes);
  const auto channel = rank_0.channel(int64_t{kMessages} * kMessageBytes);
  int sent = 0;
  for (; sent < kMessages && !rank_1->letter(); ++sent, std::this_thread::sleep_for(100ms))
    rank_1->send(0, channel, data.data(), data.size());
  EXPECT_LT(sent, kMessages);
}

TEST(ProgressEngine, MovesWhileTheProgramComputes) {
  run_local(2, [](Environment& environment) {
    const auto data = ones(100'000);
    const auto request = environment.world().all_reduce(data);
    while (!request.done()) std::this_thread::yield();  // done() does not move data
    EXPECT_EQ(data[0].item<float>(), 2.0F);
  });
}

TEST(ProgressEngine, BarrierWaitsForEverybody) {
  std::atomic<int> arrived{0};
  run_local(5, [&](Environment& environment) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      environment.world().barrier().wait();
      EXPECT_GE(arrived, 5 * round);
      environment.world().barrier().wait();
    }
  });
}

// Rank 0 is late on the low queue; the collective on the high queue finishes nevertheless.
TEST(ProgressEngine, HighPriorityPassesAnUnfinishedLowOne) {
  run_local(3, [](Environment& environment) {
    Communicator& world = environment.world();
    const auto late = ones(50'000), urgent = ones(50'000);
    Request low;
    if (world.rank() != 0) low = world.all_reduce(late, ReduceOp::sum, {.priority = Priority::low});
    world.all_reduce(urgent, ReduceOp::sum, {.priority = Priority::high}).wait();
    EXPECT_FALSE(world.rank() != 0 && low.done());
    world.barrier({.priority = Priority::high}).wait();
    if (world.rank() == 0) low = world.all_reduce(late, ReduceOp::sum, {.priority = Priority::low});
    low.wait();
    EXPECT_EQ(late[7].item<float>(), 3.0F);
  });
}

TEST(ProgressEngine, AfterHoldsBackUntilTheOtherQueueIsDone) {
  std::barrier<> both(2);
  run_local(2, [&](Environment& environment) {
    Communicator& world = environment.world();
    const auto first = ones(10), second = ones(10);
    // Only rank 1 calls the first one now. So the second must not start there, although rank 0 has
    // called it.
    std::vector<Request> low;
    if (world.rank() == 1) low.push_back(world.all_reduce(first, ReduceOp::sum, {.priority = Priority::low}));
    const auto high = world.all_reduce(second, ReduceOp::sum, {.priority = Priority::high, .after = low});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(high.done());
    both.arrive_and_wait();
    if (world.rank() == 0) low.push_back(world.all_reduce(first, ReduceOp::sum, {.priority = Priority::low}));
    high.wait();
    EXPECT_EQ(second[3].item<float>(), 2.0F);
    low[0].wait();
  });
}

// Rank 1 computes until the others have an error: its engine answers for it.
TEST(ProgressEngine, AllRanksLearnWhoHasNotCalledACollective) {
  const Variable timeout("AXONN_TIMEOUT_SECONDS", "1");
  for (const char* shared : {"1", "0"}) {
    const Variable path("AXONN_SHARED_MEMORY", shared);
    const test::Scratch scratch;
    std::atomic<int> failed{0};
    error_of([&] {
      run_local(3, [&](Environment& environment) {
        environment.set_flight_directory(scratch / "flight");
        environment.world().barrier().wait();
        std::string text;
        if (environment.rank() == 1) {
          const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
          while (failed < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
          while (!environment.hang_reported() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
          text = error_of([&] { environment.world().barrier().wait(); });
        } else {
          const auto request =
              environment.world().all_reduce(ones(250'000), ReduceOp::sum, {.tag = "h.3.mlp.up backward"});
          text = error_of([&] { request.wait(); });
          const auto again = error_of([&] { environment.world().barrier().wait(); });
          EXPECT_NE(again.find("earlier failure"), std::string::npos) << again;
          ++failed;
        }
        EXPECT_NE(text.find("all-reduce #2 of group 'world' (976.56 KiB = 1000000 bytes, tag 'h.3.mlp.up backward') "
                            "made no progress for 1 s: rank 1 has not called it"),
                  std::string::npos)
            << text;
      });
    });
    EXPECT_EQ(failed, 2);
    for (const char* rank : {"0", "1", "2"}) {
      std::ifstream file(scratch / "flight" / ("rank-000" + std::string(rank) + ".jsonl"));
      std::vector<nlohmann::json> lines;
      for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
      ASSERT_GE(lines.size(), 2U) << "rank " << rank;
      EXPECT_EQ(lines[0].at("rank"), std::stoi(rank));
      EXPECT_EQ(lines.back().at("ended") == 0, rank[0] != '1') << lines.back();
    }
  }
}

// Its newest records only, each once; what is under way for longer is known from its call.
TEST(ProgressEngine, FlightRecorderKeepsTheNewestCalls) {
  FlightRecorder recorder;
  const FlightRecorder::Call first{"all-reduce", "x", "early", 1, 8, 4};
  const auto early = recorder.called(first);
  EXPECT_GT(recorder.find(early, first).called, 0);
  for (int64_t i = 2; i <= 1000; ++i) recorder.ended(recorder.called({"all-reduce", "x", "tag", i, 8, 4}));
  recorder.ended(early);
  const auto records = recorder.last(10'000);
  ASSERT_EQ(records.size(), FlightRecorder::kRecords);
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].number, static_cast<int64_t>(1000 - records.size() + i + 1));
    EXPECT_GE(records[i].ended, records[i].called);
  }
  EXPECT_EQ(recorder.find(early, first).called, 0);
  EXPECT_EQ(recorder.last_numbers().at(4), 1000);
  recorder.called({"send", "x", "tag", 7, 8, 4});
  EXPECT_EQ(recorder.last_numbers().at(4), 1000);
}

TEST(ProgressEngine, AnExceptionOnOneRankEndsTheWaitsOfTheOthers) {
  try {
    run_local(4, [](Environment& environment) {
      AXONN_CHECK(environment.rank() != 2, "test.rank", "this rank cannot continue");
      environment.world().all_reduce(ones(1000)).wait();
    });
    FAIL() << "no exception came out";
  } catch (const UserError& error) {
    EXPECT_EQ(error.sentence(), "this rank cannot continue");
  }
}

TEST(ProgressEngine, RanksThatCallDifferentThingsFail) {
  for (const char* shared : {"1", "0"}) {
    const Variable path("AXONN_SHARED_MEMORY", shared);
    const auto error = error_of([] {
      run_local(2, [](Environment& environment) {
        environment.world().all_reduce(ones(environment.rank() == 0 ? 10 : 20)).wait();
      });
    });
    EXPECT_NE(error.find("the ranks call different collectives"), std::string::npos) << error;
  }
}

TEST(ProgressEngine, RanksWithUnlikeSegmentsFail) {
  for (const char* shared : {"1", "0"}) {
    const Variable path("AXONN_SHARED_MEMORY", shared);
    const auto error = error_of([] {
      run_local(2, [](Environment& environment) {
        const int64_t segment = environment.rank() == 0 ? 16 << 10 : 32 << 10;
        environment.world().all_reduce(ones(1 << 20), ReduceOp::sum, {.segment_bytes = segment}).wait();
      });
    });
    EXPECT_NE(error.find("the ranks call different collectives"), std::string::npos) << error;
  }
}

// The ring sends every share 2 (n - 1) times, each in messages of a segment or less.
TEST(ProgressEngine, MessagesHaveTheSizeOfASegment) {
  const Variable path("AXONN_SHARED_MEMORY", "0");
  run_local(4, [&](Environment& environment) {
    Communicator& world = environment.world();
    const auto data = ones(4 << 20);  // shares of 4 MiB
    for (const auto& [segment, messages] :
         {std::pair<int64_t, int64_t>{0, 69}, {8 << 10, 512}, {64 << 10, 64}, {100'000, 42}, {1 << 20, 8}}) {
      const auto before = world.counters();
      world.all_reduce(data, ReduceOp::max, {.segment_bytes = segment}).wait();
      EXPECT_EQ(world.counters().messages - before.messages, 6 * messages) << segment;
      EXPECT_EQ(world.counters().bytes_sent - before.bytes_sent, 6 * (4 << 20)) << segment;
    }
  });
}

// At most 2 log2 n messages per rank, whatever the collective. 56 bytes are what a step shares.
TEST(ProgressEngine, SmallCollectivesTakeFewMessages) {
  const Variable path("AXONN_SHARED_MEMORY", "0");
  for (const auto& [ranks, most] : {std::pair(2, 1), {3, 2}, {4, 3}, {5, 4}, {7, 4}, {8, 4}, {16, 6}, {17, 7}})
    run_local(ranks, [&](Environment& environment) {
      Communicator& world = environment.world();
      auto messages_of = [&, before = world.counters().messages](const Request& request) mutable {
        request.wait();
        const int64_t now = world.counters().messages;
        return now - std::exchange(before, now);
      };
      const auto data = ones(14), part = ones(2), parts = ones(2 * ranks);
      EXPECT_EQ(messages_of(world.all_reduce(data)), most) << ranks;
      const int64_t bytes = world.counters().bytes_sent;
      EXPECT_EQ(messages_of(world.reduce_scatter(parts, part)), most) << ranks;
      const int copies = ranks <= 4 ? 1 : ranks;  // among so few, an owner gets its own elements only
      EXPECT_LE(world.counters().bytes_sent - bytes, (ranks - 1) * copies * part.nbytes());
      EXPECT_EQ(messages_of(world.all_gather(part, parts)), most) << ranks;
      EXPECT_LE(messages_of(world.broadcast(data, ranks - 1)), most) << ranks;
      EXPECT_LE(messages_of(world.reduce(data, 1)), most) << ranks;
    });
}

// Its buffer is gone when the other one asks for it: so large that the system takes it back.
TEST(ProgressEngine, AMessageOfARankThatGaveUpIsNotRead) {
  const auto error = error_of([] {
    run_local(2, [](Environment& environment) {
      const auto data = ones(1 << 24);
      if (environment.rank() == 0) {
        environment.world().send(data, 1);
        throw BackendError("test", "rank 0 gives up");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const auto late = error_of([&] { environment.world().receive(data, 0).wait(); });
      EXPECT_NE(late.find("rank 0 gave up on the job"), std::string::npos) << late;
    });
  });
  EXPECT_NE(error.find("rank 0 gives up"), std::string::npos) << error;
}

// Two collectives with the same number of bytes are told apart where ranks share memory.
TEST(ProgressEngine, AllReduceMeetsReduceScatter) {
  const auto error = error_of([] {
    run_local(2, [](Environment& environment) {
      const auto whole = ones(50'000), part = ones(25'000);
      (environment.rank() == 0 ? environment.world().all_reduce(whole)
                               : environment.world().reduce_scatter(whole, part))
          .wait();
    });
  });
  EXPECT_NE(error.find("the ranks call different collectives"), std::string::npos) << error;
}

TEST(ProgressEngine, AnExceptionOfAnEpilogueFailsItsCollective) {
  const Epilogue refuse = [](int64_t place, int64_t, const void*, void*) {
    if (place >= 8192) throw std::runtime_error("the weights are not finite");
  };
  for (const int ranks : {1, 2, 3})
    for (const bool reduces : {true, false})
      for (const char* shared : {"1", "0"}) {
        const Variable path("AXONN_SHARED_MEMORY", shared);
        const auto error = error_of([&] {
          run_local(ranks, [&](Environment& environment) {
            const auto data = reduces ? ones(50'000) : at::Tensor();
            const auto request = environment.world().fused({data, ones(50'000), refuse}, {.arena_offset = 0});
            request.wait();
          });
        });
        EXPECT_NE(error.find("the weights are not finite"), std::string::npos) << error;
      }
}

// A rank's own elements of three gathers, computed over messages while the others have not called.
struct Gathers {
  static constexpr int64_t kElements = 100'000;  // two groups of chunks
  std::array<std::atomic<int64_t>, 3> computed{};

  Request call(Communicator& world, size_t gather, const at::Tensor& results) {
    const Epilogue count = [this, gather](int64_t, int64_t elements, const void*, void*) {
      for (size_t earlier = 0; earlier < gather; ++earlier) EXPECT_EQ(computed[earlier], own(0));
      computed[gather] += elements;
    };
    return world.fused({{}, results, world.rank() == 0 ? count : nothing}, {.arena_offset = 0});
  }
  static int64_t own(int rank) { return BlockOwners(2).count(rank, {0, kElements}); }
  static void nothing(int64_t, int64_t, const void*, void*) {}
};

TEST(ProgressEngine, GathersAreComputedAheadInTheirOrder) {
  const Variable path("AXONN_SHARED_MEMORY", "0");
  Gathers gathers;
  run_local(2, [&](Environment& environment) {
    const auto all_computed = [&] {
      return std::ranges::all_of(gathers.computed, [](const auto& one) { return one == Gathers::own(0); });
    };
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (environment.rank() == 1 && !all_computed() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    EXPECT_TRUE(environment.rank() == 0 || all_computed());
    std::vector<Request> requests;
    for (size_t i = 0; i < 3; ++i) requests.push_back(gathers.call(environment.world(), i, ones(Gathers::kElements)));
    for (const Request& request : requests) request.wait();
  });
  for (const auto& computed : gathers.computed) EXPECT_EQ(computed, Gathers::own(0));
}

TEST(ProgressEngine, NothingIsComputedPastAnAllReduceOrBeforeAfter) {
  const Variable path("AXONN_SHARED_MEMORY", "0");
  Gathers gathers;
  std::barrier<> both(2);
  run_local(2, [&](Environment& environment) {
    Communicator& world = environment.world();
    const std::vector<at::Tensor> results = {ones(Gathers::kElements), ones(Gathers::kElements)};
    const auto call = [&] {
      std::vector<Request> requests = {world.all_reduce(ones(10)), gathers.call(world, 0, results[0])};
      const std::vector<Request> low = {world.all_reduce(ones(10), ReduceOp::sum, {.priority = Priority::low})};
      requests.push_back(world.fused({{},
                                      results[1],
                                      [&](int64_t, int64_t count, const void*, void*) {
                                        if (world.rank() == 0) gathers.computed[1] += count;
                                      }},
                                     {.priority = Priority::high, .after = low, .arena_offset = 0}));
      return requests;
    };
    std::vector<Request> requests;
    if (world.rank() == 0) {
      requests = call();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_EQ(gathers.computed[0], 0);
      EXPECT_EQ(gathers.computed[1], 0);
    }
    both.arrive_and_wait();
    if (world.rank() == 1) requests = call();
    for (const Request& request : requests) request.wait();
  });
  EXPECT_EQ(gathers.computed[0], Gathers::own(0));
  EXPECT_EQ(gathers.computed[1], Gathers::own(0));
}

// A fused collective and an all-reduce of the same buffer are told apart where ranks share memory.
TEST(ProgressEngine, AllReduceMeetsAFusedCollective) {
  const Epilogue nothing = [](int64_t, int64_t, const void*, void*) {};
  for (const int64_t elements : {1, 50'000}) {
    const auto error = error_of([&] {
      run_local(2, [&](Environment& environment) {
        Communicator& world = environment.world();
        const auto data = ones(elements);
        const CollectiveOptions options{.arena_offset = 0};
        (world.rank() == 0 ? world.all_reduce(data, ReduceOp::sum, options)
                           : world.fused({data, data, nothing}, options))
            .wait();
      });
    });
    EXPECT_NE(error.find("the ranks call different collectives"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace axonn
