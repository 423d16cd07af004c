#pragma once

#include <cstdint>
#include <span>

#include "axonn/grid/shard_spec.hpp"
#include "axonn/network/context_split.hpp"
#include "axonn/terms/optimizer_kind.hpp"

namespace axonn {

struct MemoryOptions {
  int64_t micro_batch = 1;     // sequences or images per rank in one forward pass
  int64_t element_bytes = 4;   // per element of weights and activations
  int64_t gradient_bytes = 0;  // per element of gradient shards and of unfinished gradients; 0: element_bytes
  int64_t state_bytes = 0;     // per element of optimizer state and master weights; 0: element_bytes, no master weights
  int moments = optimizer_moments(OptimizerKind::adamw);  // elements of optimizer state per weight
  bool divided_update = false;                            // master weights and state are divided among replicas
  bool ema = false;              // an average of the weights is kept beside the optimizer's state
  bool dropout = false;          // attention dropout keeps its probabilities, but for attention_tiles
  bool attention_tiles = false;  // as on CPUs: with dropout or documents no more is kept than by the fused kernel
  int64_t attention_block = 0;   // without dropout: queries per block, probabilities are kept; 0: the fused kernel
  bool attention_rows = false;   // ranks with the same heads divide the rows of queries
  bool norm_rows = false;        // for decoders: ranks along X divide the rows of the residual stream
  bool document_mask = false;    // for decoders: attention within documents, by a mask of each sequence
  int64_t checkpoint_every = 0;  // activation checkpointing of every n-th block; 0: none
  int64_t gathered_blocks = 1;   // weights gathered over Z at a time: the one in use and those gathered ahead
  int64_t scattered_blocks = 1;  // gradients on their way to the reduce-scatter at a time, with the one in progress
  int64_t cache_bytes = 0;       // budget of gathered weights that are kept
  // For other programs: gradients are divided as the optimizer's state is (ZeRO-2).
  bool divided_gradients = false;
  int64_t moment_bytes = 0;   // per element of the optimizer's moments; 0: as the rest of its state
  int64_t logits_copies = 3;  // for decoders; 1: the gradient takes the place of the logits
  int64_t logits_chunks = 1;  // for decoders; the head and the loss take so many parts of the rows in turn
  ContextSplit context = {};  // for decoders; a micro-batch is that of all its ranks
};

// Bytes of one rank at the peak of a training step. If sizes do not divide, the rank is the one
// that holds most. Each part is the number of elements given here times the bytes of its type.
// m = micro_batch * sequence / context: this rank's rows, already split over Z and data.
// s = sequence, h = hidden, V = vocabulary. The residual stream has its features over Y (the same
// on all X ranks). qkv, the heads, the MLP's hidden features and the vocabulary are over X (the
// same on all Y ranks).
struct MemoryPrediction {
  // Weight shards as stored: matrices /(X Y Z), the position table /(Y Z), vectors /X or /Y and
  // replicated over Z. Ranges are padded to 32 elements. Includes master weights where their type
  // differs; with a divided update, /data, and /(Z data) of what is replicated over Z.
  int64_t weight_bytes = 0;
  // The same number of elements, and once more where gradients are narrower than the optimizer's
  // state.
  int64_t gradient_bytes = 0;
  // As many elements as master weights, for every moment and for the average of the weights.
  int64_t optimizer_bytes = 0;

  // gathered_blocks + scattered_blocks times the largest (X, Y) block (of the embedding, the head
  // or an MLP matrix), and the cache. Each part is at most all matrices together. 0 when Z = 1: the
  // arena itself is the block.
  int64_t gathered_bytes = 0;

  // Tensors that the blocks, the last norm and the head keep for backward. Elements per block:
  //   4 m h/Y     inputs and outputs of both norms (sums of the residual stream are inputs)
  //   4 m h/X     q, k, v, and attention's output, which the projection keeps too
  //   2 m f/X     the MLP's f hidden features (default 4 h) before and after the GELU
  //   m heads/X   logarithms of the sums of attention's exponentials (fused kernel), or
  //   m (s + attention_block)/2 heads/X   its probabilities up to the end of each query's block;
  //               at most window + attention_block per query, if all blocks have a window
  //   4 m         mean and deviation of both norms
  //   2 m h/Y + 3 m s heads/X   with dropout: the masks of both branches; the mask of the
  //                             probabilities, and the probabilities before and after it (in tiles:
  //                             the logarithms only)
  // With divided rows of queries, logarithms, probabilities and their masks are 1/Y as many, and
  // the fused kernel keeps its own outputs too, m h/(X Y). With divided rows of the residual
  // stream, h/(X Y) takes the place of h/Y. If keys and values pass around the ranks of a sequence,
  // logarithms are all that is kept of scores; with divided rows of queries also own queries and
  // outputs, 2 m h/(X Y).
  // A checkpointed block keeps only its input, m h/Y. The whole list counts once more, for the
  // block that is run again. The last norm: 2 m h/Y and 2 m. With dropout the embedding's mask:
  // m h/Y. With a document mask: m s, and without dropout or tiles m s for each block with a window
  // (1/Y with divided rows of queries). Passing keys and values have buffers, and their gradients,
  // of two ranks. Left out: ids, targets and masks of one byte, and scores of one block of passing
  // keys.
  int64_t activation_bytes = 0;

  // The loss: logits_copies m ceil(V/X) elements at once (3: probabilities, their gradient, and a
  // temporary between them), of a chunk of the rows.
  int64_t logits_bytes = 0;

  // Temporaries of one block's backward: 2 m h/Y for the residual stream's gradient and 2 m f/X
  // around the GELU. They never exist at the same time as the logits. With a divided context also
  // keys, values and their gradients of all ranks, if they are gathered; else two sums of
  // gradients, in fp32 or fp64.
  int64_t block_bytes = 0;

  int64_t total_bytes() const;  // the sum, with the larger of the last two
};

// Trainable tensors of one kind.
struct StoredTensors {
  ShardSpec spec;
  int64_t count = 1;
};

// The parts of a prediction that follow only from the tensors: weights, gradients, optimizer,
// gathered and scattered blocks. UserError for options that are out of range.
MemoryPrediction predict_stored(std::span<const StoredTensors> tensors, const GridShape& grid,
                                const MemoryOptions& options);

}  // namespace axonn
