#pragma once

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

  // Every rank calls it after each step with the seconds that it computed in it, without those that
  // it waited for others. After every kSteps steps the ranks compare. Returns a sentence about the
  // slowest rank if it exceeds what is tolerated, the same one on every rank.
  std::optional<std::string> add(double seconds);

 private:
  std::string name_of_host(int rank) const;

  Communicator& everyone_;
  int steps_ = 0;
  double seconds_ = 0;
};

}  // namespace axonn
