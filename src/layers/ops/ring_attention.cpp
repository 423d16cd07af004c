#include "layers/ops/ring_attention.hpp"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "axonn/layers/my_tokens.hpp"
#include "layers/ops/attention_blocks.hpp"
#include "layers/ops/divided_rows.hpp"
#include "layers/ops/heads_operation.hpp"

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
    if (passing_) return;
    for (Buffer* buffer : {&here_, &next_}) scheduler_.pool().give_back(std::move(buffer->lent));
  }
  Travelling(const Travelling&) = delete;
  Travelling& operator=(const Travelling&) = delete;

  const Tensor& here() const { return here_.tensor; }
  // Starts to send what is here, which must not change until arrive().
  void start() {
    passing_.emplace(scheduler_.pass_on(here_.tensor, next_.tensor, Axis::z,
                                        {.next = ring_.next(), .previous = ring_.previous()}, kTag));
  }
  // Afterwards what the rank before has sent is here.
  void arrive() {
    passing_->wait();
    passing_.reset();
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
};

// The sequence, of all ranks of the ring, and the tokens of it that the rows of queries are.
struct QueryPlace {
  int64_t sequence;
  std::vector<TokenRun> runs;
};

// queries (batch, q, heads, f), keys and values (batch, k, heads of keys, f) -> (batch, q, heads f)
class RingAttention : public TensorOperation {
 public:
  RingAttention(Context& context, AttentionTerms terms, QueryPlace queries)
      : context_(context),
        ring_(ring_of(context)),
        terms_(std::move(terms)),
        queries_(std::move(queries)),
        samples_(context.samples()) {}
  std::string name() const override { return "ring_attention"; }

  std::vector<Tensor> forward(const std::vector<Tensor>& inputs) override {
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].keep(inputs[i]);
    const auto attention = attention_by_blocks(inputs[0], inputs[1].size(2), rules());
    attention->begin();
    Travelling both(context_, sizes_of_both(inputs[1]), inputs[1].options());
    put_both(both.here(), inputs[1], inputs[2]);
    go_round(both,
             [&](int, const std::vector<TokenRun>& keys) { attention->attend(queries_.runs, keys, both.here()); });
    result_ = attention->end();
    return {result_.output.flatten(2)};
  }

  // The gradients of a rank's keys begin at the rank behind it, and come home at last, where those
  // by its own queries lie.
  std::vector<Tensor> backward(const std::vector<Tensor>& gradients) override {
    const WithSamples then(context_, samples_);
    const std::array<Tensor, 3> heads = {inputs_[0].get(), inputs_[1].get(), inputs_[2].get()};
    const auto attention = attention_by_blocks(heads[0], heads[1].size(2), rules());
    attention->begin_backward(result_, gradients[0].reshape(heads[0].sizes()));
    const std::vector<int64_t> sizes = sizes_of_both(heads[1]);
    Travelling both(context_, sizes, heads[1].options()), sums(context_, sizes, heads[1].options());
    put_both(both.here(), heads[1], heads[2]);
    const auto wide = heads[1].options().dtype(wide_type(heads[1]));
    const Tensor mine = at::zeros(sizes, wide), others = at::empty(sizes, wide);
    go_round(both, [&](int step, const std::vector<TokenRun>& keys) {
      attention->attend_backward(queries_.runs, keys, both.here(), step == 0 ? mine : others.zero_());
      if (step == 0) return;
      if (step > 1) sums.arrive();
      sums.here().copy_(step == 1 ? others : sums.here() + others);
      sums.start();
    });
    if (ring_.ranks > 1) {
      sums.arrive();
      mine.add_(sums.here());
    }
    std::vector<Tensor> all = gradients_like(heads);
    all[0].copy_(attention->grad_queries());
    for (const int64_t i : {0, 1}) all[static_cast<size_t>(1 + i)].copy_(mine[i].transpose(1, 2));
    return all;
  }

  void release() override {
    for (Saved& input : inputs_) input.reset();
    result_ = {};
  }

 private:
  // Calls work(step, keys) with the tokens whose keys are here, as they move on.
  template <typename Work>
  void go_round(Travelling& keys, const Work& work) const {
    for (int step = 0; step < ring_.ranks; ++step) {
      const bool more = step + 1 < ring_.ranks;
      const int whose = (ring_.mine - step + ring_.ranks) % ring_.ranks;
      if (more) keys.start();
      work(step, token_runs(queries_.sequence, ring_.ranks, whose));
      if (more) keys.arrive();
    }
  }

  AttentionRules rules() const { return attention_rules(context_, terms_, queries_.sequence); }

  ContextHandle context_;
  ContextRing ring_;
  AttentionTerms terms_;
  QueryPlace queries_;
  std::optional<Context::Samples> samples_;
  std::array<Saved, 3> inputs_;  // queries, keys, values
  AttentionByBlocks::Result result_;
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
  if (const Tensor whole = options.terms.documents; whole.defined())
    options.terms.documents =
        at::cat({whole.narrow(2, first.begin, first.size()), whole.narrow(2, second.begin, second.size())}, 2);
  const Tensor both = attended(context, {at::cat({taken[0], taken[3]}, 1), taken[1], taken[2]},
                               std::move(options.terms), std::move(mine));
  const std::vector<Tensor> parts = {both.narrow(1, 0, first.size()), both.narrow(1, first.size(), second.size())};
  return record(join_rows(rows, {rows.gather(parts[0].detach()), rows.gather(parts[1].detach())}), parts)[0];
}

}  // namespace

Tensor ring_attention(Context& context, const std::array<Tensor, 3>& heads, RingAttentionOptions options) {
  const int64_t tokens = heads[0].size(1);
  QueryPlace queries{.sequence = tokens * context.options().forward.context, .runs = my_runs(context, tokens)};
  if (options.rows) return attended_by_rows(context, heads, std::move(options), queries);
  return attended(context, {heads[0], heads[1], heads[2]}, std::move(options.terms), std::move(queries));
}

}  // namespace axonn
