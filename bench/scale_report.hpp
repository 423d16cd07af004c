#pragma once

#include <string>

#include "echo_transport.hpp"

namespace axonn::bench {

// The letters of a report about a job that hangs because its last rank has not called a collective
// of all.
struct ReportLetters {
  Sent rank_0, most;  // that rank 0 sends, and the rank with the most messages
  std::string headline;
  double cpu_seconds_of_rank_0 = 0;  // to read all answers, and write the report
  bool alike = true;                 // whether every rank has ended with this error
};

// All ranks are here, each with the code that it has in a job; their letters stay in this process.
// They take turns in one thread, so they have a clock that stands still while they compute.
ReportLetters report_letters(int ranks);

}  // namespace axonn::bench
