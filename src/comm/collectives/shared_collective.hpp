#pragma once

#include <memory>

#include "comm/collectives/collective_plan.hpp"
#include "comm/host/queued_operation.hpp"
#include "transport/node/shared_window.hpp"

namespace axonn {

// The collectives of a group on one node, through shared memory. Each member writes its
// contributions to slots, and the owners read them straight into their sums, in chain order. Each
// member then reads the results from the owners' slots. A small all-reduce has no owners: every
// member reads all contributions and makes every sum itself. Both give the bits of the ring. A
// fused collective always has owners, who compute before they publish a slot. A member whose slot
// has another signature is in another call: then this one never ends by itself (WaitProbe).
class SharedCollective final : public QueuedOperation {
 public:
  // A barrier moves no data.
  SharedCollective(Call call, std::shared_ptr<SharedWindow> window, CollectivePlan plan, bool barrier = false);
  ~SharedCollective() override { SharedCollective::release(); }
  Progress poll(Transport& transport) override;
  void release() override;
  int waits_for() const override;

 private:
  bool waits_for_data() const override { return waits_for_result_; }
  struct OwnedRange {
    int64_t begin = 0;  // among the owner's elements
    int64_t count = 0;
  };

  int64_t chunk_bytes() const;
  bool begin();
  bool agrees(int member, int64_t chunk);
  bool stays_behind(int member, bool has_result);
  bool contribute();
  bool contributions_written() const;
  bool reduce();
  bool deliver();
  OwnedRange owned_range(int owner, int64_t chunk) const;
  void write_contributions(std::byte* slot);
  void reduce_owned(int owner, OwnedRange owned);
  bool compute_some(OwnedRange own);
  const std::byte* contribution(int member, int owner, int64_t place, int64_t first) const;
  void add_up(int owner, int64_t place, int64_t first, int64_t count, std::byte* partial, std::byte* result);
  void put(int owner, OwnedRange owned, std::byte* slot);
  void give(OwnedRange owned, std::byte* slot);

  const std::shared_ptr<SharedWindow> window_;
  CollectivePlan plan_;
  const bool barrier_;
  const bool everybody_reduces_;
  const int64_t owned_elements_;
  const int64_t chunks_;
  bool begun_ = false;
  int64_t first_ = 0;  // queue number of chunk 0
  int64_t contributed_ = 0, reduced_ = 0, delivered_ = 0;
  int64_t computed_ = 0;  // elements of the chunk `reduced_` for which the epilogue was called
  int behind_ = -1;       // the member last found missing, or in another call
  bool waits_for_result_ = false;
};

}  // namespace axonn
