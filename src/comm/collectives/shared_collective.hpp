#pragma once

#include <memory>

#include "comm/collectives/collective_plan.hpp"
#include "comm/host/queued_operation.hpp"
#include "comm/node/shared_window.hpp"

namespace axonn {

// The collectives of a group on one node, through the memory that its ranks share: each puts its contributions where the owners read them
// straight into their sums, in chain order, and reads the results where the owners put them. A small all-reduce has no owners: everybody
// reads all contributions and makes every sum itself. Both give the bits of the ring.
class SharedCollective final : public QueuedOperation {
 public:
  // A barrier moves nothing.
  SharedCollective(Call call, std::shared_ptr<SharedWindow> window, CollectivePlan plan, bool barrier = false);
  Progress poll(Transport& transport) override;
  int waits_for() const override;

 private:
  struct Part {
    int64_t begin = 0;  // among the owner's elements
    int64_t count = 0;
  };

  bool begin();
  void check_agreement(int member, int64_t chunk) const;
  bool contribute();
  bool reduce();
  bool deliver();
  Part part(int owner, int64_t chunk) const;
  void write_contributions(std::byte* slot);
  void reduce_part(int owner, Part part);
  void put(int owner, Part part, std::byte* slot);
  void give(Part part, std::byte* slot);

  const std::shared_ptr<SharedWindow> window_;
  const CollectivePlan plan_;
  const bool barrier_;
  const bool everybody_reduces_;
  const int64_t part_elements_;
  const int64_t chunks_;
  const uint64_t signature_;  // of the call: its bytes above bit 24
  bool begun_ = false;
  int64_t first_ = 0;  // number of chunk 0 on the queue
  int64_t contributed_ = 0, reduced_ = 0, delivered_ = 0;
  int behind_ = -1;  // who was last found missing
};

}  // namespace axonn
