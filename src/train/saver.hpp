#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/comm/communicator.hpp"

namespace axonn {

// Saves checkpoints while training goes on. On each rank a thread copies and writes the rank's
// tensors. When all ranks have written, they tell rank 0 their checksums, and rank 0's thread
// completes the checkpoint and removes old ones. Threads call no collective: the ranks agree on the
// end of each part by numbers that the trainer puts into its all-reduce at the end of a step.
//
// A save that fails is logged once, by the lowest rank where it failed, and its files are removed.
// Training goes on and the next save tries again.
class Saver {
 public:
  struct Options {
    bool behind = true;  // false: save() returns when the checkpoint is complete or has failed
    int64_t memory = 0;  // most bytes of copies on this rank; 0: half of the host's free memory / local_ranks
    int local_ranks = 1;
    std::function<void()> wait_for_tensors;  // until the tensors of save() are valid
  };
  // Both outlive it.
  Saver(const CheckpointWriter& writer, Communicator& everyone, Options options);
  ~Saver();  // gives a save up that is under way, which leaves a `.partial` directory
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Before the first save(): begins to touch the memory of copies of such tensors, until that save
  // needs it. Then it takes no longer than later ones.
  void expect(std::span<const CheckpointTensor> tensors);

  // Collective. Completes the save before it, and begins this one. The tensors may become valid
  // later: start_copies() waits for them. They must not change before wait_until_copied() returns.
  // UserError as from CheckpointWriter::save().
  void save(CheckpointState state, std::vector<CheckpointTensor> tensors);

  bool reads_tensors() const { return staging_ && !staging_->copied(); }
  // Waits for the tensors, and starts the thread, unless it was started before. Every rank calls it
  // where this wait costs nothing.
  void start_copies();
  // Before anything changes a tensor of save(). It starts the thread if nobody has.
  void wait_until_copied();

  // Every rank calls progress() and then advance() after each step, with the maximum over the ranks
  // of each number. They cost no wait, but for one small gather per save, when all ranks have
  // written. UserError if ranks do not see one directory.
  using Progress = std::array<double, 2>;
  Progress progress() const;
  void advance(const Progress& greatest);

  // Collective. Returns when no save is under way.
  void finish();
  // Collective. finish(), and throws the error of the last save if that has failed.
  void check_last();

  const std::string& newest() const { return newest_; }  // complete checkpoint of this run; empty: none yet

 private:
  enum class Part { none, begun, writing, completing, removing };

  int64_t most_copies() const;
  void start(Part part, std::function<void()> work);
  void report(int failed_rank);
  void end_part();

  const CheckpointWriter& writer_;
  Communicator& everyone_;
  Options options_;
  Part part_ = Part::none;  // the same on all ranks, as are failed_ and newest_
  bool failed_ = false;     // the last save
  std::string newest_;
  int64_t step_ = 0;  // the last save's, as is path_
  std::string path_;
  std::unique_ptr<CheckpointSave> save_;
  CopyMemory copies_;
  std::jthread touching_;  // copies_, until the writer's thread needs them
  std::optional<Staging> staging_;
  std::exception_ptr refused_;      // why the save could not begin
  std::exception_ptr error_;        // why this rank's part failed, when it has ended
  std::exception_ptr first_error_;  // error_ when the ranks learned of a failure; later ones follow from it
  std::atomic<bool> ended_ = true;
  std::thread thread_;
};

}  // namespace axonn
