#pragma once

#include <exception>
#include <memory>
#include <string>

#include "axonn/comm/environment.hpp"

namespace axonn {

// How a job ends after an error: with one sentence from rank 0, "gpt: ...".

// Before there is an Environment. The exit status.
int end_before_start(const std::string& program, const std::exception& error, bool verbose);

// Within one. Every rank makes it before anything else that communicates, and each rank that meets an error calls after().
class JobEnd {
 public:
  JobEnd(Environment& environment, std::string program, bool verbose);

  // When all ranks come here within seconds: returns the exit status, and the job ends as after success, without a launcher's report of an
  // abort; a rank whose error is another one than rank 0's says so too. Otherwise the others wait for this rank in vain: it ends the job.
  int after(const std::exception& error);

 private:
  bool all_came(const std::string& text, bool& told_by_another);

  Environment& environment_;
  std::unique_ptr<Communicator> everyone_;
  std::string program_;
  bool verbose_;
};

}  // namespace axonn
