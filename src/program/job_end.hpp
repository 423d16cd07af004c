#pragma once

#include <exception>
#include <memory>
#include <string>

#include "axonn/comm/environment.hpp"

namespace axonn {

// Ends a job after an error, with one sentence from rank 0, "gpt: ...".

// Before there is an Environment. Returns the exit status.
int end_before_start(const std::string& program, const std::exception& error, bool verbose);

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
