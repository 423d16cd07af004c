#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// A run is one directory with one history: its checkpoints follow from each other, and the one with
// the most steps is the newest (docs/checkpoint.md, "One run, one history"). Each start of a job
// has an id, a line of starts.jsonl, and every checkpoint names the start that saved it.
namespace axonn {

struct CheckpointState;

// The finished checkpoints in a run's directory, in ascending order, without those that a start is
// just leaving, see leave_after().
struct CheckpointStep {
  int64_t step = 0;
  std::filesystem::path directory;
};
std::vector<CheckpointStep> checkpoints_in(const std::filesystem::path& run_directory);

// Those of checkpoints_in() that are of this history. A checkpoint is of another one if a start
// saved it that the directory's starts.jsonl does not list (it was copied here), or if a later
// start went back before it (it was put back by hand). Checkpoints that name no start, and broken
// ones, count, and all do without a starts.jsonl.
std::vector<CheckpointStep> history_in(const std::filesystem::path& run_directory);

// Whether one of checkpoints_in() with this state is of this history, for those who have read it.
bool is_of_history(const std::filesystem::path& run_directory, const CheckpointState& state);

// UserError if the checkpoint, whose state is given, cannot be the newest one of the run that it
// lies in: it is another history's, it is one that a start is leaving, or its name tells another
// step than its state.
void check_of_history(const std::filesystem::path& step_directory, const CheckpointState& state);

// The checkpoint that a run without any of its own branched off from, as its starts.jsonl says.
std::optional<std::filesystem::path> branched_from(const std::filesystem::path& run_directory);

// For a run that goes back to `step` and on from there. Later steps that the directory has go to
// its subdirectory after-step-N (N is `step`; after-step-N-2 if that is taken, and so on), then a
// run of its own: checkpoints and drawn samples are moved, and the files about its steps and starts
// copied. Nothing is removed. Returns the subdirectory, or nothing if there is no later checkpoint.
// A process that is killed meanwhile leaves after-step-N.partial. From its creation on, later steps
// are no checkpoints of this run, and the next call completes it. Only one process may call it.
std::optional<std::filesystem::path> leave_after(const std::filesystem::path& run_directory, int64_t step);

// The subdirectories that leave_after() has made, by name.
std::vector<std::filesystem::path> left_histories(const std::filesystem::path& run_directory);

}  // namespace axonn
