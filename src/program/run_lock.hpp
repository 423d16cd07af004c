#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "axonn/comm/environment.hpp"
#include "program/lock_holder.hpp"

namespace axonn {

// One job per directory of a run: the job that holds it has a file job-N.lock there, in which a
// thread counts up. It needs no locks of the file system and no equal clocks; a file that is
// created exclusively must be created once, and all hosts must see it.
//
// A lock whose job is dead is taken over: number N + 1 is created, which only one job can do, and
// then N is removed. A job is dead if its process was on this kernel and is gone, if it is this
// Slurm job before Slurm started it again, or if the file does not change for `silence`. A job is
// alive if its process is on this kernel and there, or if its file changes.
class RunLock {
 public:
  struct Times {
    std::chrono::milliseconds beat{10000};  // between two changes of the file
    std::chrono::milliseconds silence{60000};
    std::chrono::milliseconds look{200};  // between two looks at another's file
  };

  // Creates the directory if need be. UserError if another job holds it. `on_lost` is called, in
  // another thread, when another job has taken the lock over (because this one was suspended, say):
  // this job must write no more.
  RunLock(std::filesystem::path directory, const LockHolder& self, Times times, std::function<void()> on_lost);
  ~RunLock();  // gives the directory up
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  using Locks = std::map<int64_t, std::string>;  // the texts of all locks there, by number

  void acquire();
  Locks wait_for_dead() const;
  bool create(int64_t number);
  void withdraw();  // removes this job's own file
  void beat();
  bool lost() const;
  std::filesystem::path path(int64_t number) const;
  Locks locks() const;

  std::filesystem::path directory_;
  bool made_directory_ = false;
  LockHolder self_;
  Times times_;
  std::function<void()> on_lost_;
  std::optional<int64_t> number_;
  int descriptor_ = -1;
  uint64_t beats_ = 0;
  bool ending_ = false;
  std::mutex mutex_;
  std::condition_variable end_;
  std::thread thread_;
};

// Locks the directory of a run for this job: rank 0 does, and all ranks have the same outcome. Null
// on other ranks. If the lock is lost, the job is aborted. Collective.
std::unique_ptr<RunLock> lock_run(Environment& environment, const std::string& out);

}  // namespace axonn
