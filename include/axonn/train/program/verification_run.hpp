#pragma once

#include <optional>
#include <string>

#include "axonn/train/program/run_options.hpp"
#include "axonn/train/verification.hpp"

namespace axonn {

// What the subcommand `verify` of every program shares.
struct VerificationRun {
  const RunOptions& options;
  int64_t micro_batches = 1;  // forwards a step

  // Before a rank is started. UserError for values with which a comparison means nothing. Without a launcher the ranks are started on this
  // machine as one job; then the job's exit status is returned.
  std::optional<int> prepare(char** argv) const;

  // Compares and prints the table on rank 0; every rank calls it. `title`: "gpt verify". The exit status: 1 when anything differs.
  int run(Environment& environment, const std::string& title, const MakeNetwork& make) const;
};

}  // namespace axonn
