#include "scale_simulated.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <memory>

#include <ATen/ops/zeros.h>

#include "axonn/layers/context.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/train/passes.hpp"
#include "comm/channel_job.hpp"
#include "comm/environment_impl.hpp"
#include "echo_transport.hpp"
#include "overlap_network.hpp"
#include "scale_checkpoint.hpp"
#include "scale_report.hpp"
#include "scale_start_up.hpp"

namespace axonn::bench {
namespace {

constexpr uint32_t kLeastTagLimit = 32767;  // that MPI's standard promises
constexpr int64_t kSharedBytes = 56;        // that a step of the trainer shares among all ranks

constexpr int64_t kMostLetters = 30;       // a rank's, about a hang
constexpr int64_t kCollectivesOfSave = 6;  // each small
constexpr int64_t kMostCalls = 2;          // any rank's but rank 0's, in a save and in a resume
constexpr int64_t kMostMemory = 200'000'000;

// The messages of rank 0: as the root of a collective it sends most.
struct Counts {
  Sent environment, small, barrier, step, values, gather;
  int64_t collectives = 0;
  int64_t few = 0, many = 0;  // allocations of the buffer pool in a step of 2 and of 1000 collectives
};

class RankZero {
 public:
  explicit RankZero(const GridShape& shape)
      : environment_(start(static_cast<int>(shape.ranks()), sent_)), context_(environment_, shape) {
    counts_.environment = sent_;
  }

  Counts count() {
    Communicator& world = environment_.world();
    const at::Tensor values = at::zeros({kSharedBytes / 8}, at::kDouble), one = at::zeros({1}, at::kDouble);
    counts_.small = sent_by([&] { world.all_reduce(one).wait(); });
    counts_.values = sent_by([&] { world.all_reduce(values, ReduceOp::max).wait(); });
    const at::Tensor all = at::zeros({world.size()}, at::kDouble);
    counts_.gather = sent_by([&] { world.all_gather(one, all).wait(); });
    counts_.barrier = sent_by([&] { world.barrier().wait(); });
    count_staging();
    train();
    return counts_;
  }

 private:
  static std::unique_ptr<Environment::Impl> start(int ranks, Sent& sent) {
    auto impl = std::make_unique<Environment::Impl>();
    impl->start([&] { return make_echo_transport(0, ranks, kLeastTagLimit, sent); }, /*ends_process=*/false);
    return impl;
  }

  template <typename Work>
  Sent sent_by(const Work& work) {
    const Sent before = sent_;
    work();
    return sent_ - before;
  }

  // Counts the third step: the first ones learn the order of gathers.
  void train() {
    const auto [groups, mine] = context_.row_share();
    const VerifiedNetwork network = overlap_gpt(
        context_, {.shape = {.layers = 2, .hidden = 1024, .heads = 32, .sequence = 32, .vocabulary = 1024}});
    Parameters parameters = context_.materialize(*network.model, 1);
    const auto optimizer = make_optimizer(context_, parameters, {.learning_rate = 3e-4});
    const BatchPlan plan = plan_micro_batches(groups, 1, context_.shape(), context_.at());
    const auto step = [&] {
      run_passes(context_, *network.task, plan, 0);
      optimizer->step({.max_norm = 1});
      parameters.schedule().wait_for_weights();
    };
    step();
    step();
    counts_.step = sent_by(step);
    counts_.collectives = static_cast<int64_t>(context_.scheduler().traffic().records().size());
  }

  void count_staging() {
    const at::Tensor data = at::zeros({1 << 19}, at::kFloat);
    const auto allocations_of = [&](int collectives) {
      const int64_t before = environment_.engine_counters().allocations;
      context_.scheduler().begin_step();
      for (int i = 0; i < collectives; ++i) context_.scheduler().all_reduce(data, Axis::x, "staging").wait();
      context_.scheduler().finish();
      return environment_.engine_counters().allocations - before;
    };
    counts_.few = allocations_of(2);
    counts_.many = counts_.few + allocations_of(1000);
  }

  Sent sent_;
  Environment environment_;
  Context context_;
  Counts counts_;
};

bool check_channels(int ranks) {
  const auto grids = power_of_two_grids(ranks);
  uint32_t largest = 0;
  for (const Grid& grid : grids) {
    ChannelJob job(ranks, kLeastTagLimit);
    if (!job.make_all(grid)) return false;
    largest = std::max(largest, job.largest_id());
  }
  std::printf("  channels of all %zu powers-of-two grids: none meet, the largest is %u of %u\n", grids.size(),
              largest + 2, kLeastTagLimit);
  return true;
}

void print(const char* what, const Sent& sent) {
  std::printf("  %-44s %8lld messages %12lld bytes\n", what, static_cast<long long>(sent.messages),
              static_cast<long long>(sent.bytes));
}

// Whether every rank has the same error, and none wrote to many.
bool check_report(int ranks) {
  const ReportLetters letters = report_letters(ranks);
  std::printf("report of a hang of %d ranks, all %s the same error:\n", ranks, letters.alike ? "have" : "DO NOT have");
  print("rank 0", letters.rank_0);
  print("the rank that sends most", letters.most);
  std::printf("  %-44s %8.2f s of CPU\n", "rank 0 reads the answers and reports", letters.cpu_seconds_of_rank_0);
  return letters.alike && letters.most.messages <= kMostLetters;
}

void print_costs(const char* who, const CheckpointCosts& costs) {
  std::printf("  %s:\n", who);
  print("  save", costs.save);
  print("  resume, but for the tensors", costs.resume);
  print("  tensors for ranks that hold the same", costs.tensors);
  std::printf("    metadata operations: save %lld, resume %lld\n", static_cast<long long>(costs.save_calls),
              static_cast<long long>(costs.resume_calls));
  std::printf("    reads %.1f MB of %lld file; manifest and plan take %.1f MB and %.2f s\n",
              static_cast<double>(costs.read_bytes) / 1e6, static_cast<long long>(costs.opens_to_load),
              static_cast<double>(costs.memory) / 1e6, costs.cpu_seconds);
}

// Whether no rank but rank 0 does more than a few things. `most`: messages of a small collective.
bool check_checkpoint(const GridShape& shape, int most) {
  const CheckpointCounts counts = count_checkpoint(shape);
  std::printf("checkpoint of %zu tensors: %zu files, %zu parts, a manifest of %.1f MB\n", counts.tensors, counts.files,
              counts.parts, static_cast<double>(counts.manifest_bytes) / 1e6);
  print_costs("rank 0", counts.rank_0);
  print_costs("the last rank", counts.last);
  return std::max(counts.rank_0.save.messages, counts.last.save.messages) <= kCollectivesOfSave * most &&
         std::max(counts.last.save_calls, counts.last.resume_calls) <= kMostCalls && counts.last.memory <= kMostMemory;
}

}  // namespace

bool simulate_scale(const std::string& grid) {
  const GridShape shape = parse_grid_shape(grid);
  const int ranks = static_cast<int>(shape.ranks());
  const Counts counts = RankZero(shape).count();
  const int most = 2 * static_cast<int>(std::bit_width(static_cast<unsigned>(ranks)) - 1);
  std::printf("%d ranks on %s; rank 0 sends:\n", ranks, grid.c_str());
  print("start: settings, world, and the grid's groups", counts.environment);
  print("an all-reduce of 8 bytes over all ranks", counts.small);
  print("an all-reduce of 56 bytes, as a step shares", counts.values);
  print("a gather of 8 bytes of each rank", counts.gather);
  print("a barrier", counts.barrier);
  print("a step of a GPT of 2 layers", counts.step);
  std::printf("  ... in %lld collectives\n", static_cast<long long>(counts.collectives));
  std::printf("  allocations in a step of 2 and of 1000 all-reduces of 2 MiB: %lld, %lld\n",
              static_cast<long long>(counts.few), static_cast<long long>(counts.many));
  const StartUpBytes tcp = start_up_bytes(ranks);
  std::printf("  start over TCP: rank 0 sends %zu bytes, rank 1 %zu; %.1f s with stand-ins\n", tcp.rank_0, tcp.rank_1,
              tcp.seconds);
  const bool small = std::max({counts.small.messages, counts.values.messages, counts.gather.messages,
                               counts.barrier.messages}) <= most;
  std::printf("  small collectives take at most 2 log2 n = %d messages: %s\n", most, small ? "yes" : "NO");
  const bool channels = check_channels(ranks), report = check_report(ranks), checkpoint = check_checkpoint(shape, most);
  return channels && report && checkpoint && small && counts.many <= counts.few;
}

}  // namespace axonn::bench
