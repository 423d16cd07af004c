#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "axonn/comm/environment.hpp"

namespace axonn {

// Ends a job after an error, with one sentence from rank 0, "gpt: ...".

// The ranks that have met an error before there is an Environment.
enum class MetBy : uint8_t {
  all,  // every rank, in the same command line: rank 0 tells it
  some  // ranks of some hosts, or one: see below
};

// Before there is an Environment, so ranks cannot ask each other. Rank 0 tells its error at once.
// The others wait first: where it ends the job, the launcher ends them too. Else the first rank of
// each host tells a UserError, which the others there have met in the same files and variables. A
// OneRankError, and all other errors, are told by each rank. Returns the exit status.
int end_before_start(const std::string& program, const std::exception& error, bool verbose, MetBy met);

// After the job, if its output could not be written. Returns the exit status.
int end_without_output(const std::string& program, const std::exception& error, bool verbose);

// With an Environment. Every rank constructs it before anything else that communicates. Each rank
// that catches an error calls after().
class JobEnd {
 public:
  JobEnd(Environment& environment, std::string program, bool verbose);

  // If all ranks call it within seconds, it returns the exit status, and the job ends as after
  // success, without a launcher's report of an abort. A rank whose error differs from rank 0's
  // prints it too. Otherwise the other ranks would wait for this rank forever, so it aborts the
  // job.
  int after(const std::exception& error);

 private:
  bool all_came(const std::string& text, bool& said_by_another);

  Environment& environment_;
  std::unique_ptr<Communicator> everyone_;
  std::string program_;
  bool verbose_;
};

}  // namespace axonn
