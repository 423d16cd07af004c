#include "layers/ops/attention/ring_attention.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>

#include <ATen/ops/cat.h>
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

// Of both runs of a rank's tokens, the same rows. A rank's pieces go round the ring one behind the
// other: a piece can be attended while the next one is still to come, and only the gradients of the
// last one come home after all computing.
class Piece {
 public:
  static std::vector<Piece> all(int64_t tokens /* of a rank */) {
    const int64_t run = tokens / 2, count = std::clamp<int64_t>(run / kLeastRows, 1, kMost);
    std::vector<Piece> pieces;
    for (int64_t i = 0; i < count; ++i) pieces.push_back(Piece(run, {run * i / count, run * (i + 1) / count}));
    return pieces;
  }

  int64_t tokens() const { return 2 * rows_.size(); }
  std::vector<TokenRun> of(const std::vector<TokenRun>& runs) const {
    std::vector<TokenRun> mine;
    for (const int64_t run : {0, 1})
      for (const TokenRun& some : runs_within(runs, rows_of(run), run * rows_.size())) mine.push_back(some);
    return mine;
  }
  // Calls work(rows of `all`, the same of `mine`) for (..., the rank's tokens, f) and (..., the
  // piece's, f).
  template <typename Work>
  void for_rows(const Tensor& all, const Tensor& mine, const Work& work) const {
    for (const int64_t run : {0, 1})
      work(all.narrow(-2, rows_of(run).begin, rows_.size()), mine.narrow(-2, run * rows_.size(), rows_.size()));
  }

 private:
  // Of a run: with fewer rows, a message has little to hide.
  static constexpr int64_t kLeastRows = 128, kMost = 8;

  Piece(int64_t run, Range rows) : run_(run), rows_(rows) {}
  Range rows_of(int64_t run) const { return {run * run_ + rows_.begin, run * run_ + rows_.end}; }

  int64_t run_;
  Range rows_;
};

class RingAttention final : public HeadsAttention {
 public:
  RingAttention(Context& context, AttentionTerms terms, QueryPlace queries)
      : HeadsAttention(context, std::move(terms), queries.sequence),
        ring_(ring_of(context)),
        queries_(std::move(queries.runs)),
        pieces_(Piece::all(sequence() / ring_.ranks)) {}
  std::string name() const override { return "ring_attention"; }

 private:
  AttentionByBlocks::Result attend(const Heads& heads) override {
    const auto attention = attention_by_blocks(heads[0], heads[1].size(2), rules());
    attention->begin();
    const KeysValues own = by_key_head(heads[1], heads[2]);
    std::deque<Travelling> keys = pieces_of(own);
    go_round(
        keys, [&](const std::vector<TokenRun>& runs) { attention->attend(queries_, runs, own); },
        [&](int, size_t piece, const std::vector<TokenRun>& runs) {
          attention->attend(queries_, runs, halves(keys[piece].here()));
        });
    return attention->end();
  }

  // The gradients of a rank's keys begin at the rank behind it, and come home at last, where those
  // by its own queries lie.
  Gradients attend_backward(const Heads& heads, const AttentionByBlocks::Result& result,
                            const Tensor& grad_output) override {
    const auto attention = attention_by_blocks(heads[0], heads[1].size(2), rules());
    attention->begin_backward(result, grad_output);
    const KeysValues own = by_key_head(heads[1], heads[2]);
    std::deque<Travelling> keys = pieces_of(own), sums = buffers_like(own);
    const auto wide = heads[1].options().dtype(wide_type(heads[1]));
    const Tensor mine = at::zeros(sizes_of_both(own, own.keys.size(2)), wide);
    Tensor others;
    go_round(
        keys, [&](const std::vector<TokenRun>& runs) { attention->attend_backward(queries_, runs, own, halves(mine)); },
        [&](int step, size_t piece, const std::vector<TokenRun>& runs) {
          const Tensor& some = keys[piece].here();
          others = others.defined() && others.sizes() == some.sizes() ? others.zero_() : at::zeros(some.sizes(), wide);
          attention->attend_backward(queries_, runs, halves(some), halves(others));
          Travelling& sum = sums[piece];
          if (step > 1) sum.arrive();
          step == 1 ? sum.here().copy_(others) : sum.here().add_(others);
          sum.start();
        });
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i].arrive();
      pieces_[i].for_rows(mine, sums[i].here(), [](const Tensor& to, const Tensor& sum) { to.add_(sum); });
    }
    return {.queries = attention->grad_queries(), .keys_values = mine};
  }

  std::deque<Travelling> buffers_like(const KeysValues& own) {
    std::deque<Travelling> buffers;
    for (const Piece& piece : pieces_)
      buffers.emplace_back(context(), sizes_of_both(own, piece.tokens()), own.keys.options());
    return buffers;
  }
  std::deque<Travelling> pieces_of(const KeysValues& own) {
    std::deque<Travelling> pieces = buffers_like(own);
    for (size_t i = 0; i < pieces.size(); ++i) {
      const auto copy = [](const Tensor& from, const Tensor& to) { to.copy_(from); };
      pieces_[i].for_rows(own.keys, pieces[i].here()[0], copy);
      pieces_[i].for_rows(own.values, pieces[i].here()[1], copy);
    }
    return pieces;
  }

  // Calls work_on_own(runs) with this rank's tokens, and then work(step, piece, runs) with those of
  // each piece that has come, as they move on.
  template <typename OwnWork, typename Work>
  void go_round(std::deque<Travelling>& keys, const OwnWork& work_on_own, const Work& work) const {
    for (Travelling& piece : keys) piece.start();
    work_on_own(token_runs(sequence(), ring_.ranks, ring_.mine));
    for (int step = 1; step < ring_.ranks; ++step) {
      const std::vector<TokenRun> runs =
          token_runs(sequence(), ring_.ranks, (ring_.mine - step + ring_.ranks) % ring_.ranks);
      for (size_t piece = 0; piece < keys.size(); ++piece) {
        keys[piece].arrive();
        if (step + 1 < ring_.ranks) keys[piece].start();
        work(step, piece, pieces_[piece].of(runs));
      }
    }
  }

  ContextRing ring_;
  std::vector<TokenRun> queries_;
  std::vector<Piece> pieces_;
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
