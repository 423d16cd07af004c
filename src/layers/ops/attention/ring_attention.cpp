#include "layers/ops/attention/ring_attention.hpp"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "axonn/layers/my_tokens.hpp"
#include "layers/ops/attention/blocked_attention.hpp"
#include "layers/ops/attention/divided_rows.hpp"
#include "layers/ops/attention/heads_attention.hpp"

namespace axonn {
namespace {

constexpr std::string_view kTag = "context";

ContextRing ring_of(const Context& context) {
  return context_ring(context.shape(), context.at(), context.options().forward.context);
}

// A tensor that goes round the ring, in two buffers of the scheduler's.
class Travelling {
 public:
  Travelling(Context& context, at::IntArrayRef sizes, const at::TensorOptions& options)
      : scheduler_(context.scheduler()), ring_(ring_of(context)) {
    const int64_t elements = c10::multiply_integers(sizes);
    for (Buffer* buffer : {&here_, &next_}) {
      buffer->lent = scheduler_.pool().take(elements, options);
      buffer->tensor = buffer->lent.narrow(0, 0, elements).view(sizes);
    }
  }
  // After an error a message may still be under way: then its buffers do not come back.
  ~Travelling() {
    if (moves_) return;
    for (Buffer* buffer : {&here_, &next_}) scheduler_.pool().give_back(std::move(buffer->lent));
  }
  Travelling(const Travelling&) = delete;
  Travelling& operator=(const Travelling&) = delete;

  const Tensor& here() const { return here_.tensor; }
  // Starts to send what is here, which must not change until arrive().
  void start() {
    moves_ = true;
    passing_.emplace(scheduler_.pass_on(here_.tensor, next_.tensor, Axis::z,
                                        {.next = ring_.next(), .previous = ring_.previous()}, kTag));
  }
  // Afterwards what the rank before has sent is here.
  void arrive() {
    passing_->wait();
    passing_.reset();
    moves_ = false;
    std::swap(here_, next_);
  }

 private:
  struct Buffer {
    Tensor lent, tensor;
  };
  Scheduler& scheduler_;
  ContextRing ring_;
  Buffer here_, next_;
  std::optional<Passing> passing_;
  bool moves_ = false;  // since before start() calls anything
};

// The sequence, of all ranks of the ring, and the tokens of it that the rows of queries are.
struct QueryPlace {
  int64_t sequence;
  std::vector<TokenRun> runs;
};

class RingAttention final : public HeadsAttention {
 public:
  RingAttention(Context& context, AttentionTerms terms, QueryPlace queries)
      : HeadsAttention(context, std::move(terms), queries.sequence),
        ring_(ring_of(context)),
        queries_(std::move(queries.runs)) {}
  std::string name() const override { return "ring_attention"; }

 private:
  AttentionByBlocks::Result attend(const Heads& heads) override {
    const auto attention = attention_by_blocks(heads[0], heads[1].size(2), rules());
    attention->begin();
    Travelling both(context(), sizes_of_both(heads[1]), heads[1].options());
    put_both(both.here(), heads[1], heads[2]);
    go_round(both, [&](int, const std::vector<TokenRun>& keys) { attention->attend(queries_, keys, both.here()); });
    return attention->end();
  }

  // The gradients of a rank's keys begin at the rank behind it, and come home at last, where those
  // by its own queries lie.
  Gradients attend_backward(const Heads& heads, const AttentionByBlocks::Result& result,
                            const Tensor& grad_output) override {
    const auto attention = attention_by_blocks(heads[0], heads[1].size(2), rules());
    attention->begin_backward(result, grad_output);
    const std::vector<int64_t> sizes = sizes_of_both(heads[1]);
    Travelling both(context(), sizes, heads[1].options()), sums(context(), sizes, heads[1].options());
    put_both(both.here(), heads[1], heads[2]);
    const auto wide = heads[1].options().dtype(wide_type(heads[1]));
    const Tensor mine = at::zeros(sizes, wide), others = at::empty(sizes, wide);
    go_round(both, [&](int step, const std::vector<TokenRun>& keys) {
      attention->attend_backward(queries_, keys, both.here(), step == 0 ? mine : others.zero_());
      if (step == 0) return;
      if (step > 1) sums.arrive();
      sums.here().copy_(step == 1 ? others : sums.here() + others);
      sums.start();
    });
    sums.arrive();
    return {.queries = attention->grad_queries(), .keys_values = mine.add_(sums.here())};
  }

  // Calls work(step, keys) with the tokens whose keys are here, as they move on.
  template <typename Work>
  void go_round(Travelling& keys, const Work& work) const {
    for (int step = 0; step < ring_.ranks; ++step) {
      const bool more = step + 1 < ring_.ranks;
      const int whose = (ring_.mine - step + ring_.ranks) % ring_.ranks;
      if (more) keys.start();
      work(step, token_runs(sequence(), ring_.ranks, whose));
      if (more) keys.arrive();
    }
  }

  ContextRing ring_;
  std::vector<TokenRun> queries_;
};

Tensor attended(Context& context, const std::vector<Tensor>& heads, AttentionTerms terms, QueryPlace queries) {
  return record(std::make_unique<RingAttention>(context, std::move(terms), std::move(queries)), heads)[0];
}

// Keys and values come by once for both parts of a rank's rows.
Tensor attended_by_rows(Context& context, const std::array<Tensor, 3>& heads, RingAttentionOptions options,
                        const QueryPlace& all) {
  const DividedRows rows(context, *options.rows, heads[0].size(1));
  const auto& [first, second] = rows.mine();
  const std::vector<Tensor> taken = record(take_rows(rows, /*causal=*/false), {heads[0], heads[1], heads[2]});
  QueryPlace mine{.sequence = all.sequence, .runs = runs_within(all.runs, first)};
  for (const TokenRun& run : runs_within(all.runs, second, first.size())) mine.runs.push_back(run);
  const Tensor both = attended(context, {at::cat({taken[0], taken[3]}, 1), taken[1], taken[2]},
                               std::move(options.terms), std::move(mine));
  const std::vector<Tensor> parts = {both.narrow(1, 0, first.size()), both.narrow(1, first.size(), second.size())};
  return record(join_rows(rows, {rows.gather(parts[0].detach()), rows.gather(parts[1].detach())}), parts)[0];
}

}  // namespace

Tensor ring_attention(Context& context, const std::array<Tensor, 3>& heads, RingAttentionOptions options) {
  const int64_t tokens = heads[0].size(1);
  QueryPlace queries{.sequence = tokens * context.options().forward.context, .runs = my_runs(context, tokens)};
  options.terms.masked = queries.runs;
  if (options.rows) return attended_by_rows(context, heads, std::move(options), queries);
  return attended(context, {heads[0], heads[1], heads[2]}, std::move(options.terms), std::move(queries));
}

}  // namespace axonn
