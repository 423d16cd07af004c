#include "axonn/coconet/stages/stage_chain.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "axonn/core/error.hpp"
#include "coconet/stages/compiled_chain.hpp"

namespace axonn::coconet {
namespace {

constexpr const char* kWhere = "coconet.stage_chain";

#if defined(__x86_64__)
// Clang's __builtin_cpu_supports does not know it.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

StageTable table_of(InstructionSet set) {
  return set == InstructionSet::avx512 ? avx512_stages() : set == InstructionSet::avx2 ? avx2_stages() : plain_stages();
}

BoundChain bind(const ChainItems& items, const std::vector<ChainItem>& list, const StageTable& table) {
  const bool wide = needs_wide(items.nodes, list);
  BoundChain bound{write_chain(items.nodes, list, wide), {}, table.elements_per_round / (wide ? 2 : 1)};
  for (const WrittenStage& each : bound.written) {
    const int place = find_stage(each.key);
    AXONN_ASSERT(place >= 0, "a chain has a stage that does not exist");
    bound.stages.push_back({table.functions[place], each.a, each.b, each.c, each.out});
  }
  return bound;
}

void check_count(size_t got, size_t need, const char* what) {
  AXONN_CHECK(got == need, kWhere, "this kernel has ", need, " ", what, ", the call gives ", got);
}

// Streams of which one is stored do not overlap: a round could load what another element stored.
void check_streams(const PointwiseKernel& kernel, const StageCall& call) {
  const auto& types = kernel.streams();
  const auto begin_of = [&](size_t i) { return std::bit_cast<uintptr_t>(call.streams[i]); };
  const auto end_of = [&](size_t i) {
    return begin_of(i) + static_cast<uint64_t>(call.count * bytes_of(types[i].type));
  };
  for (size_t i = 0; i < types.size(); ++i) {
    AXONN_CHECK(call.streams[i] != nullptr, kWhere, "stream '", types[i].name, "' is null; give its address");
    for (size_t j = 0; j < i; ++j) {
      const bool apart = begin_of(i) >= end_of(j) || begin_of(j) >= end_of(i);
      const int one = static_cast<int>(i), other = static_cast<int>(j);
      const bool shared = begin_of(i) == begin_of(j) && (kernel.shares(one, other) || kernel.shares(other, one));
      AXONN_CHECK(!(types[i].stored || types[j].stored) || apart || shared, kWhere, "streams '", types[j].name,
                  "' and '", types[i].name,
                  "' overlap, and one of them is stored: use one stream for an update in place");
    }
  }
}

void check(const PointwiseKernel& kernel, const StageCall& call) {
  AXONN_CHECK(call.count >= 0, kWhere, "a call has 0 elements or more, got ", call.count);
  check_count(call.streams.size(), kernel.streams().size(), "streams");
  check_count(call.scalars.size(), kernel.scalars().size(), "scalars");
  check_count(call.range_values.size(), kernel.range_values().size(), "range values");
  check_count(call.masks.size(), kernel.masks().size(), "dropout masks");
  check_count(call.partials.size(), kernel.reductions().size(), "reductions");
  for (const MaskInput& each : call.masks)
    AXONN_CHECK(each.probability >= 0 && each.probability < 1, kWhere, "probability must be in [0, 1), got ",
                each.probability);
  if (call.count > 0) check_streams(kernel, call);
}

void set_numbers(const StageChain::Compiled& chain, const StageCall& call, StageRun& run) {
  double* next = std::ranges::copy(call.scalars, run.numbers).out;
  next = std::ranges::copy(call.range_values, next).out;
  next = std::ranges::copy(chain.constants, next).out;
  std::transform(run.numbers, next, run.narrow_numbers, [](double each) { return static_cast<float>(each); });
  run.base = 0;
  run.rest = chain.once.elements_per_round;
  if (chain.once.stages.size() > 1) chain.table.drive(chain.once.stages.data(), &run, 0, 1, 1);
}

double first_of(ReduceOp kind) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return kind == ReduceOp::sum ? 0 : kind == ReduceOp::max ? -infinity : infinity;
}

double joined(ReduceOp kind, double a, double b) {
  if (kind == ReduceOp::sum) return a + b;
  if (a == b) return (kind == ReduceOp::max) == std::signbit(a) ? b : a;
  if (std::isnan(a) || std::isnan(b)) return a + b;
  return (kind == ReduceOp::max) == (a > b) ? a : b;
}

// Half the lanes to the other half, until one is left.
double sum_of_lanes(ReduceOp kind, double* lanes) {
  const auto halve = [lanes](const auto& join) {
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) lanes[i] = join(lanes[i], lanes[i + half]);
    return lanes[0];
  };
  if (kind == ReduceOp::sum) return halve([](double a, double b) { return a + b; });
  return halve([kind](double a, double b) { return joined(kind, a, b); });
}

// One call of a chain.
class Run {
 public:
  Run(const StageChain::Compiled& chain, const StageCall& call)
      : chain_(chain), types_(chain.kernel.streams()), call_(call), round_(chain.per_element.elements_per_round) {
    std::ranges::transform(call.masks, run_.masks, mask_run);
    set_numbers(chain, call, run_);
  }

  void execute() {
    if (call_.partials.empty()) return execute(0, call_.count);
    for (int64_t begin = 0; begin < call_.count; begin += StageChain::kReductionBlock) {
      for (size_t i = 0; i < call_.partials.size(); ++i) std::ranges::fill(run_.lanes[i], first_of(kind(i)));
      execute(begin, std::min(call_.count, begin + StageChain::kReductionBlock));
      for (size_t i = 0; i < call_.partials.size(); ++i)
        call_.partials[i][begin / StageChain::kReductionBlock] = sum_of_lanes(kind(i), run_.lanes[i]);
    }
  }

 private:
  ReduceOp kind(size_t i) const { return chain_.kernel.reductions()[i].kind; }

  void execute(int64_t begin, int64_t end) {
    const int64_t whole = begin + (end - begin) / round_ * round_;
    for (size_t i = 0; i < types_.size(); ++i) run_.streams[i] = static_cast<std::byte*>(call_.streams[i]);
    run_.base = 0;
    run_.rest = round_;
    if (whole > begin) chain_.table.drive(chain_.per_element.stages.data(), &run_, begin, whole, round_);
    if (whole < end) execute_rest(whole, static_cast<int32_t>(end - whole));
  }

  // The last elements, in a copy of a whole round.
  void execute_rest(int64_t begin, int32_t count) {
    alignas(64) std::byte copies[PointwiseKernel::kMostStreams][kMostRoundBytes];
    const auto bytes = [&](size_t i, int64_t elements) {
      return static_cast<size_t>(elements * bytes_of(types_[i].type));
    };
    const auto original = [&](size_t i) { return static_cast<std::byte*>(call_.streams[i]) + bytes(i, begin); };
    for (size_t i = 0; i < types_.size(); ++i) {
      run_.streams[i] = copies[i];
      std::memset(copies[i], 0, kMostRoundBytes);
      if (types_[i].loaded) std::memcpy(copies[i], original(i), bytes(i, count));
    }
    run_.base = begin;
    run_.rest = count;
    chain_.table.drive(chain_.per_element.stages.data(), &run_, 0, 1, 1);
    for (size_t i = 0; i < types_.size(); ++i)
      if (types_[i].stored) std::memcpy(original(i), copies[i], bytes(i, count));
  }

  const StageChain::Compiled& chain_;
  const std::vector<PointwiseKernel::StreamType>& types_;
  const StageCall& call_;
  const int32_t round_;
  StageRun run_;
};

}  // namespace

// word * 2^-32 < probability for words below a number of them
MaskRun mask_run(const MaskInput& input) {
  const auto dropped = static_cast<uint64_t>(std::ceil(input.probability * 0x1p32));
  return {.seed = input.seed,
          .first = static_cast<uint64_t>(input.first),
          .stream = input.stream,
          .last_dropped = static_cast<uint32_t>(dropped - 1),
          .drops = dropped > 0,
          .kept = static_cast<float>(1 / (1 - input.probability))};
}

bool runs_here(InstructionSet set) {
  if (table_of(set).functions == nullptr) return false;
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return set == InstructionSet::plain || (avx2 && (set == InstructionSet::avx2 || avx512));
#else
  return set == InstructionSet::plain;
#endif
}

InstructionSet best_instruction_set() {
  for (const InstructionSet set : {InstructionSet::avx512, InstructionSet::avx2})
    if (runs_here(set)) return set;
  return InstructionSet::plain;
}

StageChain::StageChain(const PointwiseKernel& kernel, InstructionSet set) {
  AXONN_CHECK(runs_here(set), kWhere, "this processor has no ", to_string(set), "; its best instruction set is ",
              to_string(best_instruction_set()));
  const ChainItems items = lower(kernel);
  const StageTable table = table_of(set);
  compiled_ = std::make_shared<const Compiled>(Compiled{
      kernel, set, table, items.constants, bind(items, items.once, table), bind(items, items.per_element, table)});
}

void StageChain::run(const StageCall& call) const {
  check(compiled_->kernel, call);
  if (call.count > 0) Run(*compiled_, call).execute();
}

InstructionSet StageChain::instruction_set() const { return compiled_->set; }

int StageChain::num_stages() const { return static_cast<int>(compiled_->per_element.stages.size()); }

double StageChain::combine(ReduceOp kind, std::span<const double> partials) {
  double result = first_of(kind);
  for (const double each : partials) result = joined(kind, result, each);
  return result;
}

}  // namespace axonn::coconet
