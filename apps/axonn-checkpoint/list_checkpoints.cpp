#include <chrono>
#include <cstdio>
#include <filesystem>
#include <vector>

#include <axonn/checkpoint/checkpoint.hpp>
#include <axonn/checkpoint/history.hpp>
#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>

#include "checkpoint_commands.hpp"

namespace {

namespace fs = std::filesystem;
constexpr const char* kWhere = "axonn_checkpoint";

struct Files {
  int64_t count = 0;
  double bytes = 0;
};

Files files_in(const fs::path& directory) {
  Files files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    ++files.count;
    files.bytes += static_cast<double>(entry.file_size());
  }
  return files;
}

// The checkpoints that a path names: all of a run's directory, or one.
std::vector<fs::path> checkpoints_of(const fs::path& path) {
  AXONN_CHECK(fs::is_directory(path), kWhere, "there is no directory ", path.string(),
              "; name a run's directory or a checkpoint in it");
  std::vector<fs::path> found;
  for (const auto& step : axonn::checkpoints_in(path)) found.push_back(step.directory);
  if (found.empty()) found.push_back(axonn::CheckpointReader(path).directory());
  return found;
}

// "", or why the run in whose directory it lies does not go on from it.
std::string place_in_history(const axonn::CheckpointReader& checkpoint) {
  try {
    axonn::check_of_history(checkpoint.directory(), checkpoint.state());
    return "";
  } catch (const axonn::UserError& error) {
    return ", and not of this run: " + error.sentence();
  }
}

void list_left(const fs::path& run) {
  for (const fs::path& left : axonn::left_histories(run)) {
    const auto steps = axonn::checkpoints_in(left);
    std::printf("\n%s: a history that the run has left, %zu checkpoint%s", left.c_str(), steps.size(),
                steps.size() == 1 ? "" : "s");
    if (!steps.empty()) std::printf(", the newest of step %lld", static_cast<long long>(steps.back().step));
    std::printf("\n");
  }
}

double hours_since_change(const fs::path& directory) {
  const auto age = fs::file_time_type::clock::now() - fs::last_write_time(directory);
  return std::chrono::duration<double, std::ratio<3600>>(age).count();
}

}  // namespace

int list_checkpoints(const CheckpointOptions& options) {
  int broken = 0;
  std::printf("| checkpoint | grid | tensors | files | size | hours old | state |\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const std::string& path : options.paths)
    for (const fs::path& directory : checkpoints_of(path)) {
      const Files files = files_in(directory);
      std::string grid = "?", tensors = "?", state = "complete";
      try {
        const axonn::CheckpointReader checkpoint(directory);
        grid = checkpoint.grid().to_string();
        tensors = std::to_string(checkpoint.tensors().size());
        if (options.verify) {
          axonn::check_checkpoint(directory);
          state = "whole";
        }
        state += place_in_history(checkpoint);
      } catch (const axonn::UserError& error) {
        state = "broken: " + error.sentence();
        ++broken;
      }
      std::printf("| %s | %s | %s | %lld | %s | %.1f | %s |\n", directory.c_str(), grid.c_str(), tensors.c_str(),
                  static_cast<long long>(files.count), axonn::bytes_text(files.bytes).c_str(),
                  hours_since_change(directory), state.c_str());
    }
  for (const std::string& path : options.paths) list_left(path);
  return broken > 0 ? 1 : 0;
}

int verify_checkpoints(const CheckpointOptions& options) {
  int broken = 0;
  for (const std::string& path : options.paths)
    for (const fs::path& directory : checkpoints_of(path)) {
      try {
        axonn::check_checkpoint(directory);
        const Files files = files_in(directory);
        std::printf("%s: whole (%lld files, %s)\n", directory.c_str(), static_cast<long long>(files.count),
                    axonn::bytes_text(files.bytes).c_str());
      } catch (const axonn::UserError& error) {
        std::printf("%s: broken: %s\n", directory.c_str(), error.sentence().c_str());
        ++broken;
      }
      std::fflush(stdout);
    }
  return broken > 0 ? 1 : 0;
}
