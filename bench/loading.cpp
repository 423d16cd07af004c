// The time in which all ranks load a directory of Hugging Face's, beside one process that reads its
// files as cat does. They take turns; both read from the page cache after the first time.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <axonn/axonn.hpp>
#include <axonn/comm/all_ranks_or_none.hpp>
#include <axonn/core/sentence.hpp>
#include <axonn/grid/grid_shape.hpp>
#include <axonn/model/hugging_face/model_directory.hpp>
#include <axonn/transport/launch.hpp>

#include "medians.hpp"

namespace {

namespace fs = std::filesystem;

int64_t read_weights(const fs::path& directory) {
  std::vector<char> piece(size_t{128} << 10);
  int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    while (file.read(piece.data(), std::ssize(piece)), file.gcount() > 0) bytes += file.gcount();
  }
  return bytes;
}

void measure(axonn::Environment& environment, const std::string& path, const axonn::GridShape& grid, int repetitions) {
  axonn::Context context(environment, grid);
  std::optional<axonn::ModelDirectory> directory;
  axonn::all_ranks_or_none(environment.world(), [&] { directory.emplace(path); });
  axonn::Decoder model(context, {.shape = directory->config().shape});
  const auto parameters = context.materialize(model, {.is_loaded = [](const std::string&) { return true; }});
  int64_t bytes = 0;
  const auto read = [&] {
    if (environment.rank() == 0) bytes = read_weights(path);
  };
  const auto load = [&] {
    directory.emplace(path);
    directory->load(context, parameters);
  };
  const auto seconds = axonn::bench::medians(environment, repetitions, {read, load});
  if (environment.rank() == 0)
    std::printf("%s on %s, %.0f MB: read %.3f s, loaded %.3f s, ratio %.2f\n", path.c_str(), grid.to_string().c_str(),
                static_cast<double>(bytes) / 1e6, seconds[0], seconds[1], seconds[1] / seconds[0]);
}

// The error is the same on all ranks.
int end_after(const std::exception& error) {
  if (axonn::launched_rank() == 0) std::fprintf(stderr, "loading: %s\n", axonn::sentence_of(error).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The time of loading a directory of Hugging Face's, beside reading its files"};
  std::string directory, grid = "1x1x1x1";
  int repetitions = 5;
  app.add_option("DIRECTORY", directory, "config.json and model.safetensors")->required();
  app.add_option("--grid", grid, "X x Y x Z x data")->capture_default_str();
  app.add_option("--repetitions", repetitions, "turns")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    axonn::Environment environment;
    try {
      measure(environment, directory, axonn::parse_grid_shape(grid), repetitions);
      return 0;
    } catch (const std::exception& error) {  // before the environment ends: other ranks may still read from this one
      return end_after(error);
    }
  } catch (const std::exception& error) {
    return end_after(error);
  }
}
