#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "axonn/grid/block_owners.hpp"
#include "axonn/comm/collective_buffer.hpp"
#include "axonn/comm/request.hpp"
#include "axonn/core/reduce_op.hpp"
#include "axonn/grid/grid.hpp"

namespace axonn {

class Production;

// A group has one ordered queue per priority; higher queues go first. A matrix product waits for
// `high`; only the optimizer waits for `low`.
enum class Priority : uint8_t { high, normal, low };
inline constexpr std::array<std::string_view, 3> kPriorityNames = {"high", "normal", "low"};

struct CollectiveOptions {
  Priority priority = Priority::normal;
  std::span<const Request> after = {};  // starts when these and the earlier calls on its queue are done
  // Caller, for reports and traces: "h.3.mlp.up backward". The same on all ranks; of a send, as of
  // its receive. Copied, its first 63 bytes.
  std::string_view tag = {};
  // Offset of the buffer's element 0 in its arena. If given, the order in which an element's
  // contributions are added depends only on its place in the arena. The bits are then the same
  // however the arena is split into messages. If not given, the order depends on the place in this
  // message. NCCL ignores it.
  std::optional<int64_t> arena_offset = {};
  // The contributions of an all_reduce, a reduce_scatter in equal parts or a fused collective are
  // still being written. A part is read when it is released (production.hpp). The bits are those of
  // the same contributions written before. All ranks of the group give one, or none does; not with
  // an arena_offset. Read only during the call.
  const Production* production = nullptr;
  // At most so many bytes per message of a collective between nodes, and per chunk of an owner in
  // shared memory: 8 KiB to 1 MiB, the same on all ranks of the group. 0: comm's choice. No bits
  // depend on it. A production and small collectives have messages of their own; NCCL ignores it.
  int64_t segment_bytes = 0;
};
inline constexpr int64_t kSmallestSegment = int64_t{8} << 10, kLargestSegment = int64_t{1} << 20;

// Calls of an epilogue begin and end at multiples of so many elements of the arena, or at the ends
// of the buffer or of a scattered tensor. So sums over such portions do not depend on the messages.
inline constexpr int64_t kEpilogueUnit = 1024;

// The owner of an element calls it with the finished sum. A call is for the elements [place,
// place + count) of the buffer, which lie in one block of the arena if it is given. `sum` points to
// their sums, or is null when nothing is reduced. The call writes what is gathered to `result`,
// which is null when nothing is gathered.
using Epilogue = std::function<void(int64_t place, int64_t count, const void* sum, void* result)>;

// A reduction, a computation on the sums and a gather as one collective, as CoCoNet fuses them. A
// buffer that is not defined leaves its half out.
struct FusedCollective {
  CollectiveBuffer contributions;  // reduced over the group
  CollectiveBuffer results;        // gathered from the owners; its dtype may be another one
  Epilogue epilogue = {};
  ReduceOp op = ReduceOp::sum;
};

// Collectives over one group of ranks. Every rank of the group makes the same calls, in the same
// order, on the same queues. Launches follow program order, never arrival order. A collective
// behaves like a kernel on its queue: it does not block the host, and its buffers stay alive until
// the request is done. Tensors are contiguous, on the communicator's device, of fp64, fp32, bf16,
// fp16, int64, int32 or uint8. bf16 and fp16 are added in fp32 and rounded after every hop. With
// one rank every call returns at once and does at most a copy, or the epilogue's computation.
// Misuse, such as another dtype or sizes that do not fit, is a UserError from the call itself.
//
// Call n of a group is the same on all of its ranks: kind, size, dtype, op, root, counts, tag, the
// other options, and the step (StepMoment). Otherwise the calls do not meet, nothing is written
// from one to the other, and the job ends: a rank asks after half a second without progress, and
// wait() throws BackendError, which names both calls. So do waits that can never end, because ranks
// wait for each other or for a rank whose program has ended. A send and its receive are compared in
// the same way.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual std::string_view backend() const = 0;  // "mpi", "local", "tcp", "nccl", "self"
  // Whether collectives of this group send messages; otherwise its ranks share memory or a device's
  // library moves the data. The same on all of them.
  virtual bool sends_messages() const { return false; }
  const Group& group() const { return group_; }
  int rank() const { return group_.index; }
  int size() const { return group_.size(); }

  // In place. Every rank ends with the same bits.
  virtual Request all_reduce(const at::Tensor& data, ReduceOp op = ReduceOp::sum,
                             const CollectiveOptions& options = {}) = 0;

  // `input` is the concatenation of one part per rank. `output` gets this rank's part, reduced; it
  // may be this rank's part of `input`. counts[i] is the number of elements of part i, and they sum
  // to input.numel(). Empty counts mean equal parts. Outside this rank's part, `input` is
  // unspecified afterwards.
  virtual Request reduce_scatter(const at::Tensor& input, const at::Tensor& output,
                                 std::span<const int64_t> counts = {}, ReduceOp op = ReduceOp::sum,
                                 const CollectiveOptions& options = {}) = 0;

  // The reverse: `output` is the concatenation of every rank's `input`. `input` may be this rank's
  // part of `output`.
  virtual Request all_gather(const at::Tensor& input, const at::Tensor& output, std::span<const int64_t> counts = {},
                             const CollectiveOptions& options = {}) = 0;

  // Reduces every element at its owner, calls the epilogue there, and gathers what that wrote.
  // Owners follow from options.arena_offset (BlockOwners); without it they have contiguous, nearly
  // equal parts of the buffer, the larger ones first. An element's contributions are added in the
  // order of an all-reduce with the same options, so an all-reduce and the same computation
  // afterwards have the same bits.
  //
  // Contributions and results have equally many elements. They may be one tensor, where an epilogue
  // may find `result` equal to `sum`. Otherwise they do not overlap, and contributions are only
  // read. Without an epilogue only one half is possible, in place. With contributions only, the
  // sums of this rank's own elements stand in them afterwards, and the rest is unspecified. With
  // results only, every rank's own elements go to all.
  //
  // The epilogue is called exactly once for each element, on its owner, by the thread that moves
  // the collective: the engine's, or one that waits. There is one call at a time, and blocks come
  // in no promised order. All collectives of this rank stand still meanwhile, so it must be fast,
  // and must not wait for a request. A poll computes 8 KiB at most. The epilogue is destroyed when
  // the request is done. If it throws a std::exception, the collective fails: wait() throws
  // BackendError. In a group of one whoever waits is the one to compute, if `after` is not done at
  // the call. NCCL has no fused collectives: BackendError from the call.
  //
  // Either buffer may be scattered (ScatteredTensors); if both are, their elements have the same
  // places. Its first place is options.arena_offset, so bits, messages and owners are those of one
  // tensor with all places. Contributions are read, and results written, where they lie. A call of
  // the epilogue then lies in one tensor, and empty places get none.
  //
  // Without contributions it may be called ahead: `after` is done, but earlier calls of its queue
  // may not be, if they too are of this kind. Then their epilogues have been called, and what they
  // gather may not be there.
  virtual Request fused(const FusedCollective& collective, const CollectiveOptions& options) = 0;

  // In place; `root` and `peer` are indices in the group.
  virtual Request broadcast(const at::Tensor& data, int root, const CollectiveOptions& options = {}) = 0;
  // Only root's buffer holds the result; the other buffers are unspecified afterwards.
  virtual Request reduce(const at::Tensor& data, int root, ReduceOp op = ReduceOp::sum,
                         const CollectiveOptions& options = {}) = 0;
  // Two ranks may both send to each other first and then receive: this does not deadlock.
  virtual Request send(const at::Tensor& data, int peer, const CollectiveOptions& options = {}) = 0;
  virtual Request receive(const at::Tensor& data, int peer, const CollectiveOptions& options = {}) = 0;
  virtual Request barrier(const CollectiveOptions& options = {}) = 0;

  // Bytes and messages this rank has sent so far, and collectives it has started. Between ranks
  // that share memory there are no messages. Letters between engines are not counted.
  struct Counters {
    int64_t bytes_sent = 0;
    int64_t messages = 0;
    int64_t collectives = 0;
  };
  virtual Counters counters() const = 0;

 protected:
  explicit Communicator(Group group) : group_(std::move(group)) {}

 private:
  Group group_;
};

}  // namespace axonn
