#include "resume.hpp"

#include <filesystem>
#include <type_traits>

#include <axonn/core/error.hpp>

namespace {

namespace fs = std::filesystem;

fs::path run_directory(const axonn::CheckpointReader& reader) {
  const fs::path parent = reader.directory().parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

template <typename T>
void check_kept(const axonn::CheckpointReader& reader, const char* flag, const T& mine, const T& kept) {
  std::string mine_text, kept_text;
  if constexpr (std::is_arithmetic_v<T>) {
    mine_text = axonn::detail::concatenate(" ", mine);
    kept_text = axonn::detail::concatenate(" (", kept, ")");
  }
  AXONN_CHECK(mine == kept, "gpt.resume", flag, mine_text, " is not what ", reader.directory().string(), " was trained with", kept_text,
              ", and a run that goes on keeps it; leave the flag out, or start a new run");
}

}  // namespace

void take_over(GptOptions& options, axonn::OptionTable& table, const axonn::CheckpointReader& reader) {
  const std::string name = (reader.directory() / "manifest.json").string();
  const bool out_was_set = table.source("out") >= axonn::OptionTable::Source::file;
  GptOptions saved;
  axonn::OptionTable saved_table;
  saved.bind(saved_table);
  saved_table.read_json(reader.state().configuration, name);
  table.read_json(reader.state().configuration, name);
  if (!out_was_set) options.train.out = run_directory(reader).string();

  const auto kept = [&](const char* flag, const auto& mine, const auto& theirs) { check_kept(reader, flag, mine, theirs); };
  kept("--model", options.preset, saved.preset);
  kept("--layers", options.model.layers, saved.model.layers);
  kept("--hidden", options.model.hidden, saved.model.hidden);
  kept("--heads", options.model.heads, saved.model.heads);
  kept("--sequence", options.model.sequence, saved.model.sequence);
  kept("--vocab", options.model.vocabulary, saved.model.vocabulary);
  kept("--tied", options.model.tied_head, saved.model.tied_head);
  kept("--dtype", options.dtype, saved.dtype);
  kept("--tokenizer", options.tokenizer, saved.tokenizer);
  kept("--validation-fraction", options.validation_fraction, saved.validation_fraction);
  kept("--seed", options.train.seed, saved.train.seed);
  kept("--batch", options.train.batch, saved.train.batch);
  kept("--optimizer", options.train.optimizer, saved.train.optimizer);
}

void check_out(const GptOptions& options, const std::optional<axonn::CheckpointReader>& resumed) {
  const fs::path out = options.train.out;
  AXONN_CHECK(!out.empty(), "gpt.train", "--out must name a directory");
  if (!fs::exists(out)) return;
  AXONN_CHECK(fs::is_directory(out), "gpt.train", "--out ", out.string(), " is not a directory");
  if (resumed && fs::equivalent(out, run_directory(*resumed))) return;
  const auto steps = axonn::checkpoints_in(out);
  const fs::path metrics = out / "metrics.jsonl";
  const bool begun = fs::exists(metrics) && fs::file_size(metrics) > 0;
  const std::string other = "; nothing is overwritten: --out DIR begins another";
  AXONN_CHECK(steps.empty(), "gpt.train", out.string(), " already holds a run, newest checkpoint ", steps.back().directory.string(), other,
              ", --resume ", out.string(), " goes on with it");
  AXONN_CHECK(!begun, "gpt.train", out.string(), " already holds a run that never reached a checkpoint", other);
}
