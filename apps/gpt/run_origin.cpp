#include "run_origin.hpp"

#include <algorithm>
#include <vector>

#include <axonn/model/hugging_face/write_model.hpp>

namespace {

namespace fs = std::filesystem;

bool lies_in(const fs::path& file, const fs::path& directory) {
  std::error_code ignored;
  return fs::equivalent(fs::absolute(file).parent_path(), directory, ignored);
}

std::vector<fs::path> files_of_new_run(const GptOptions& options, const std::optional<axonn::Tokenizer>& tokenizer) {
  const std::vector<fs::path> own = tokenizer ? tokenizer->files() : std::vector<fs::path>();
  if (options.from.empty()) return own;
  std::vector<fs::path> files = axonn::files_beside_weights(options.from);
  if (!own.empty() && lies_in(own.front(), options.from)) {
    for (const fs::path& file : own)  // also those whose names only they have
      if (std::ranges::find(files, file.filename(), &fs::path::filename) == files.end()) files.push_back(file);
    return files;
  }
  std::erase_if(files, axonn::belongs_to_tokenizer);
  files.insert(files.end(), own.begin(), own.end());
  return files;
}

}  // namespace

std::optional<axonn::Tokenizer> tokenizer_of(const axonn::CheckpointReader& checkpoint) {
  if (checkpoint.state().tokenizer == kNoTokenizer) return std::nullopt;
  return axonn::Tokenizer::from_json(checkpoint.state().tokenizer,
                                     axonn::origin_of_run(checkpoint.directory().parent_path()));
}

void keep_origin(const fs::path& run, const GptOptions& options, const std::optional<axonn::Tokenizer>& tokenizer,
                 const axonn::CheckpointReader* resumed) {
  if (run.empty()) return;
  const fs::path kept = axonn::origin_of_run(run);
  if (resumed == nullptr) return axonn::keep_files(kept, files_of_new_run(options, tokenizer));
  const fs::path before = axonn::origin_of_run(resumed->directory().parent_path());
  if (lies_in(before, run)) return;  // the run goes on in its own directory
  std::vector<fs::path> files;
  if (fs::exists(before))
    for (const auto& entry : fs::directory_iterator(before)) files.push_back(entry.path());
  axonn::keep_files(kept, files);
}
