#pragma once

#include <deque>
#include <optional>
#include <string>

#include "axonn/comm/communicator.hpp"

namespace axonn {

// Finds ranks that compute longer than the others. Such a rank delays every step of the job, and
// the others show it only as waiting.
class Stragglers {
 public:
  static constexpr int kSteps = 100;          // per comparison
  static constexpr double kTolerated = 0.15;  // longer than the median

  // `everyone` outlives it.
  explicit Stragglers(Communicator& everyone) : everyone_(everyone) {}

  // Every rank calls both for each step, in the order of the steps. The first takes the seconds
  // that it waited for others in the step. The second takes the seconds of the whole step; on a GPU
  // they are known when later steps have waited already. After every kSteps steps the ranks
  // compare. Returns a sentence about the slowest rank if it exceeds what is tolerated, the same
  // one on every rank.
  void add_waited(double seconds) { waited_.push_back(seconds); }
  std::optional<std::string> add_step(double seconds);

 private:
  std::string name_of_host(int rank) const;

  Communicator& everyone_;
  int steps_ = 0;
  double seconds_ = 0;         // computed in these steps
  std::deque<double> waited_;  // in steps whose own seconds are still to come
};

}  // namespace axonn
