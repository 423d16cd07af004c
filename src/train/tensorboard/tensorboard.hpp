#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "axonn/core/json/json_numbers.hpp"
#include "train/tensorboard/record_file.hpp"

namespace axonn {

// TensorBoard's event files of a run, in its folder tb: one per start of a job, with curves of the
// metrics, and drawn samples. Events of steps that a run repeats do not count any more, so each
// step is shown once. Only for rank 0. An error later than in the constructor is logged, and from
// then on nothing is written, while the run goes on.
class TensorBoard {
 public:
  // Begins a file. The next step is the one after `first_step`. Errors are those of RecordFile.
  TensorBoard(const std::filesystem::path& run_directory, int64_t first_step);

  // The metrics of a step. Those of single collectives and products stay in metrics.jsonl.
  void add(int64_t step, const NamedNumbers& metrics);
  // A sample's file: an image (.png), or else a text.
  void add_sample(int64_t step, const std::filesystem::path& sample);
  // The next step is the one after `step`.
  void go_back(int64_t step);
  // Writes what is kept, so that a run that goes on from here has it.
  void flush();

 private:
  template <typename Write>
  void try_to(const Write& write);

  std::optional<RecordFile> file_;  // nothing after an error: what is behind a torn record is not read
};

}  // namespace axonn
