#pragma once

#include <map>
#include <memory>
#include <vector>

#include "axonn/comm/environment.hpp"

namespace axonn {

// The communicators of one rank of one grid, one per set of axes, made on first use. The first use
// waits for the other ranks of the group. All ranks of the grid run the same program, so they use
// the same sets in the same order.
class Communicators {
 public:
  // `job_ranks[i]` is the job rank of the grid's rank i; when empty, the grid spans the job. `rank`
  // is this process's rank in the grid.
  Communicators(Environment& environment, const Grid& grid, int rank, c10::Device device,
                std::vector<int> job_ranks = {});
  // Every set of axes that spans the grid is `everyone`, which outlives it; other sets are not to
  // be used. Rank i of the grid is member i of the group.
  Communicators(Communicator& everyone, const Grid& grid);

  // Destroys all of them. Those that are made on demand are a UserError from now on.
  void close() noexcept;

  Communicator& operator[](AxisSet axes);
  // The same groups on the CPU, for control values (hashes, texts) of a CUDA grid.
  Communicator& on_cpu(AxisSet axes);
  // Whether any group along `axes` sends messages: one answer for all ranks of the grid. They agree
  // on it in the first call for these axes, which every one of them makes; later ones exchange
  // nothing.
  bool any_sends_messages(AxisSet axes);

  // Of all that are made here. Whoever counts the steps of these communicators sets it.
  StepMoment& moment() { return *moment_; }

 private:
  Communicator& get(AxisSet axes, c10::Device device);

  Environment* environment_ = nullptr;
  Communicator* everyone_ = nullptr;
  const Grid& grid_;
  int rank_;
  c10::Device device_;
  std::vector<int> job_ranks_;
  const std::shared_ptr<StepMoment> moment_ = std::make_shared<StepMoment>();
  std::map<std::pair<uint8_t, bool>, std::unique_ptr<Communicator>> made_;  // by (axes, on CPU)
  std::map<uint8_t, bool> any_sends_;                                       // by axes
};

}  // namespace axonn
