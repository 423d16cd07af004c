#include "kernels/gpu/embedding_rows.hpp"

#include <algorithm>

#include "kernels/gpu/launch.cuh"
#include "kernels/gpu/packs.cuh"

namespace axonn {
namespace {

constexpr int kWarp = 32, kThreads = 1024, kWarps = kThreads / kWarp, kMostThreads = 512;
constexpr int kOwned = 256, kLeastBlocks = 32;  // words of a block; blocks, where there are enough words
constexpr int kChunk = kEmbeddingChunk;

// A word's tokens are places[begins[word]] to places[ends[word]], in ascending order.
struct Order {
  int* begins;
  int* ends;
  int* places;
  int* total;    // number of places
  int* arrived;  // in the slot of a word's second chunk, how many of its chunks are summed
};

// Chunks behind the first one of their word have slots in memory. At most one begins among kChunk
// places, because only words of more tokens have such chunks.
__device__ int slot_of(int begin) { return begin / kChunk; }
__host__ __device__ int64_t later_chunks(const TokenGradients& tokens) { return (tokens.tokens + kChunk - 1) / kChunk; }

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
  for (int64_t i = int64_t{blockIdx.x} * kThreads + me; i < later_chunks(tokens); i += int64_t{gridDim.x} * kThreads)
    order.arrived[i] = 0;
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
    if (me == kOwned - 1 && blockIdx.x == gridDim.x - 1) *order.total = next[me] + count;
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

// The work of a block: sums places [from, to) of a word that has [begin, end).
struct Chunk {
  int64_t word = 0;
  int begin = 0, end = 0, from = 0, to = 0;

  __device__ bool is_first() const { return from == begin; }
  __device__ int of_word() const { return (end - begin + kChunk - 1) / kChunk; }
};

// Block `slot` has the chunk of this slot, if there is one: its word has the slot's first place
// too. Block later_chunks() + word has the word's first chunk. So long work begins early.
__device__ Chunk chunk_of_block(const TokenGradients& tokens, const Order& order) {
  const int64_t later = later_chunks(tokens);
  const bool has_slot = blockIdx.x < later;
  const int place = has_slot ? static_cast<int>(blockIdx.x) * kChunk : 0;
  Chunk chunk;
  if (has_slot && place >= *order.total) return chunk;
  chunk.word = has_slot ? tokens.ids[order.places[place]] - tokens.first : blockIdx.x - later;
  chunk.begin = order.begins[chunk.word];
  chunk.end = order.ends[chunk.word];
  chunk.from = chunk.begin;
  if (has_slot) chunk.from += (place - chunk.begin + kChunk - 1) / kChunk * kChunk;
  if (has_slot && chunk.is_first()) chunk.from = chunk.end;  // it has another block
  chunk.to = chunk.end - chunk.from < kChunk ? chunk.end : chunk.from + kChunk;
  return chunk;
}

// All threads of a block call it, after what they wrote. Whether it is the last one of the word's
// blocks, which sees what the others wrote.
__device__ bool is_last(const Chunk& chunk, const Order& order) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&order.arrived[slot_of(chunk.begin + kChunk)], 1) == chunk.of_word() - 1;
  __syncthreads();
  __threadfence();
  return last;
}

// A block sums a chunk, and a thread of it packs of columns. First chunks go to `sums`, others to
// `parts` (later_chunks(), width); the last block of a word adds these, in their order.
template <typename Element, int size>
__global__ void __launch_bounds__(kMostThreads)
    sum_tokens(TokenGradients tokens, Order order, Wide<Element>* parts, Wide<Element>* sums, bool add) {
  using Number = Wide<Element>;
  const Chunk chunk = chunk_of_block(tokens, order);
  if (chunk.from >= chunk.to && (add || blockIdx.x < later_chunks(tokens))) return;
  const auto part_at = [&](int place) { return parts + slot_of(place) * tokens.width; };
  Number* const of_word = sums + chunk.word * tokens.width;
  Number* const to = chunk.is_first() ? of_word : part_at(chunk.from);
  const int64_t first = int64_t{threadIdx.x} * size, step = int64_t{blockDim.x} * size;
  for (int64_t column = first; column < tokens.width; column += step) {
    Number sum[size] = {};
    for (int place = chunk.from; place < chunk.to; ++place) {
      const int64_t at = order.places[place] * tokens.width + column;
      const auto some =
          *reinterpret_cast<const Pack<Element, size>*>(static_cast<const Element*>(tokens.gradients) + at);
      for (int i = 0; i < size; ++i) sum[i] += static_cast<Number>(some.element[i]);
    }
    for (int i = 0; i < size; ++i) to[column + i] = chunk.is_first() && add ? to[column + i] + sum[i] : sum[i];
  }
  if (chunk.of_word() < 2 || !is_last(chunk, order)) return;
  for (int64_t column = first; column < tokens.width; column += step) {
    Number sum[size];
    for (int i = 0; i < size; ++i) sum[i] = of_word[column + i];
    for (int place = chunk.begin + kChunk; place < chunk.end; place += kChunk)
      for (int i = 0; i < size; ++i) sum[i] += part_at(place)[column + i];
    for (int i = 0; i < size; ++i) of_word[column + i] = sum[i];
  }
}

// Scratch begins with the numbers of Order. Behind them are the parts, so that a read of one too
// many is a read behind the scratch.
int64_t bytes_of_order(const TokenGradients& tokens) {
  const int64_t numbers = 2 * tokens.words + tokens.tokens + 1 + later_chunks(tokens);
  return (numbers * static_cast<int64_t>(sizeof(int)) + 15) / 16 * 16;
}

int64_t bytes_of_parts(const TokenGradients& tokens) {
  return later_chunks(tokens) * tokens.width *
         (tokens.type == c10::ScalarType::Double ? sizeof(double) : sizeof(float));
}

}  // namespace

int64_t embedding_scratch_bytes(const TokenGradients& tokens) {
  return bytes_of_order(tokens) + bytes_of_parts(tokens);
}

void embedding_backward(const TokenGradients& tokens, void* scratch, void* sums, bool add, int device) {
  if (tokens.words == 0) return;
  const int64_t blocks = std::max((tokens.words + kOwned - 1) / kOwned, std::min<int64_t>(tokens.words, kLeastBlocks)),
                chunks = later_chunks(tokens) + tokens.words;
  int* const numbers = static_cast<int*>(scratch);
  int *const places = numbers + 2 * tokens.words, *const total = places + tokens.tokens;
  const Order order{numbers, numbers + tokens.words, places, total, total + 1};
  char* const parts = static_cast<char*>(scratch) + bytes_of_order(tokens);
  launch("layers.embedding", device, {static_cast<unsigned>(blocks), kThreads}, order_tokens, tokens, order);
  dispatch(tokens.type, tokens.width, {tokens.gradients},
           [&]<typename Element, int size>(Element, std::integral_constant<int, size>) {
             const int64_t packs = (tokens.width + size - 1) / size,
                           threads = std::min<int64_t>((packs + kWarp - 1) / kWarp * kWarp, kMostThreads);
             launch("layers.embedding", device, {static_cast<unsigned>(chunks), static_cast<unsigned>(threads)},
                    sum_tokens<Element, size>, tokens, order, reinterpret_cast<Wide<Element>*>(parts),
                    static_cast<Wide<Element>*>(sums), add);
           });
}

}  // namespace axonn
