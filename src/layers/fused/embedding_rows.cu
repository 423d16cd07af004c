#include "layers/fused/embedding_rows.hpp"

#include <algorithm>

#include "layers/ops/launch.cuh"
#include "layers/ops/packs.cuh"

namespace axonn {
namespace {

constexpr int kWarp = 32, kThreads = 1024, kWarps = kThreads / kWarp, kMostThreads = 512;
constexpr int kOwned = 256, kLeastBlocks = 32;  // words of a block; blocks, where there are enough words

// A word's tokens are places[begins[word]] to places[ends[word]], in ascending order.
struct Order {
  int* begins;
  int* ends;
  int* places;
};

// A block owns every gridDim.x-th word, so that frequent words, which often are neighbours, are in
// different blocks. It counts their tokens and those of the blocks before, and then gives each
// token its place.
__global__ void __launch_bounds__(kThreads) order_tokens(TokenGradients tokens, Order order) {
  __shared__ int next[kOwned], before, found[kThreads], in_warp[kWarps];
  const auto me = static_cast<int>(threadIdx.x), lane = me % kWarp, warp = me / kWarp;
  const auto here = static_cast<unsigned>(tokens.here);
  const auto word_of = [&](int64_t token) { return static_cast<uint64_t>(tokens.ids[token] - tokens.first); };
  if (me < kOwned) next[me] = 0;
  if (me == 0) before = 0;
  __syncthreads();
  int earlier = 0;
  for (int64_t token = me; token < tokens.tokens; token += kThreads) {
    if (word_of(token) >= here) continue;
    const auto word = static_cast<unsigned>(word_of(token)), block = word % gridDim.x;
    if (block == blockIdx.x) atomicAdd(&next[word / gridDim.x], 1);
    if (block < blockIdx.x) ++earlier;
  }
  if (earlier > 0) atomicAdd(&before, earlier);
  __syncthreads();
  const int count = me < kOwned ? next[me] : 0;
  for (int step = 1; step < kOwned; step *= 2) {  // running sums
    const int add = me < kOwned && me >= step ? next[me - step] : 0;
    __syncthreads();
    if (me < kOwned) next[me] += add;
    __syncthreads();
  }
  if (me < kOwned) {
    next[me] += before - count;
    const int64_t word = int64_t{me} * gridDim.x + blockIdx.x;
    if (word < tokens.words) {
      order.begins[word] = next[me];
      order.ends[word] = next[me] + count;
    }
  }
  for (int64_t first = 0; first < tokens.tokens; first += kThreads) {
    const int64_t token = first + me;
    const uint64_t word = token < tokens.tokens ? word_of(token) : here;
    const bool mine = word < here && word % gridDim.x == blockIdx.x;
    const int slot = mine ? static_cast<int>(word / gridDim.x) : 0;
    const unsigned all = __ballot_sync(~0u, mine);
    if (lane == 0) in_warp[warp] = __popc(all);
    __syncthreads();
    int at = __popc(all & ((1u << lane) - 1));
    for (int other = 0; other < warp; ++other) at += in_warp[other];
    if (mine) found[at] = slot;
    __syncthreads();
    if (mine) {
      int place = next[slot];
      for (int other = 0; other < at; ++other) place += found[other] == slot ? 1 : 0;
      order.places[place] = static_cast<int>(token);
    }
    __syncthreads();
    if (mine) atomicAdd(&next[slot], 1);
  }
}

// A block sums a word, and a thread of it packs of columns.
template <typename Element, int size>
__global__ void __launch_bounds__(kMostThreads)
    sum_tokens(TokenGradients tokens, Order order, Wide<Element>* sums, bool add) {
  const int begin = order.begins[blockIdx.x], end = order.ends[blockIdx.x];
  if (begin == end && add) return;
  for (int64_t column = int64_t{threadIdx.x} * size; column < tokens.width; column += int64_t{blockDim.x} * size) {
    Wide<Element> sum[size] = {};
    for (int place = begin; place < end; ++place) {
      const int64_t at = order.places[place] * tokens.width + column;
      const auto some =
          *reinterpret_cast<const Pack<Element, size>*>(static_cast<const Element*>(tokens.gradients) + at);
      for (int i = 0; i < size; ++i) sum[i] += static_cast<Wide<Element>>(some.element[i]);
    }
    Wide<Element>* const to = sums + int64_t{blockIdx.x} * tokens.width + column;
    for (int i = 0; i < size; ++i) to[i] = add ? to[i] + sum[i] : sum[i];
  }
}

}  // namespace

int64_t token_order_size(const TokenGradients& tokens) { return 2 * tokens.words + tokens.tokens; }

void embedding_backward(const TokenGradients& tokens, int32_t* order, void* sums, bool add, int device) {
  if (tokens.words == 0) return;
  const int64_t blocks = std::max((tokens.words + kOwned - 1) / kOwned, std::min<int64_t>(tokens.words, kLeastBlocks));
  const Order of_words{order, order + tokens.words, order + 2 * tokens.words};
  launch("layers.embedding", device, {static_cast<unsigned>(blocks), kThreads}, order_tokens, tokens, of_words);
  dispatch(tokens.type, tokens.width, {tokens.gradients},
           [&]<typename Element, int size>(Element, std::integral_constant<int, size>) {
             const int64_t packs = (tokens.width + size - 1) / size,
                           threads = std::min<int64_t>((packs + kWarp - 1) / kWarp * kWarp, kMostThreads);
             launch("layers.embedding", device, {static_cast<unsigned>(tokens.words), static_cast<unsigned>(threads)},
                    sum_tokens<Element, size>, tokens, of_words, static_cast<Wide<Element>*>(sums), add);
           });
}

}  // namespace axonn
