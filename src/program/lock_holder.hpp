#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace axonn {

// The holder of a run's directory, by its lock.
struct LockHolder {
  std::string host;
  std::string kernel;  // this boot of the host, and its namespace of process numbers
  int64_t process = 0;
  std::string started;  // the process's start on the clock of that kernel: numbers are used again
  std::string job;      // Slurm's number of the job; empty without one
  int restarts = 0;     // times that Slurm has started this job again
  std::string since;    // UTC

  static LockHolder self();
  static LockHolder from_json(const std::string& text);  // unknown parts stay empty
  std::string to_json(uint64_t beats) const;             // has the same length for all beats
  std::string to_string() const;                         // "process 17 on host a (Slurm job 5) since ..."
};

enum class Life { dead, alive, unknown };

// Whether the holder is still at work, as far as `self` can tell.
Life life_of(const LockHolder& holder, const LockHolder& self, const std::filesystem::path& lock);

}  // namespace axonn
