#pragma once

#include <cstdint>
#include <filesystem>

#include "axonn/core/json/json_numbers.hpp"
#include "train/tensorboard/record_file.hpp"

namespace axonn {

// TensorBoard's event files of a run, in its folder tb: one per start of a job, with curves of the
// metrics, and drawn samples. Events of steps that a run repeats do not count any more, so each
// step is shown once. Only for rank 0. Errors are those of RecordFile.
class TensorBoard {
 public:
  // Begins a file. The next step is the one after `first_step`.
  TensorBoard(const std::filesystem::path& run_directory, int64_t first_step);

  // The metrics of a step. Those of single collectives and products stay in metrics.jsonl.
  void add(int64_t step, const NamedNumbers& metrics);
  // A sample's file: an image (.png), or else a text.
  void add_sample(int64_t step, const std::filesystem::path& file);
  // The next step is the one after `step`.
  void go_back(int64_t step);
  // Writes what is kept, so that a run that goes on from here has it.
  void flush() { file_.flush(); }

 private:
  RecordFile file_;
};

}  // namespace axonn
