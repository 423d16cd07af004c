#include "axonn/program/resume.hpp"

#include <algorithm>
#include <filesystem>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

fs::path run_directory(const CheckpointReader& reader) {
  const fs::path parent = reader.directory().parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

}  // namespace

void resume_options(OptionTable& table, const CheckpointReader& reader, std::span<const std::string> kept,
                    std::string& out) {
  const std::string& configuration = reader.state().configuration;
  const std::string name = (reader.directory() / "manifest.json").string();
  const bool out_was_set = table.source("out") >= OptionTable::Source::file;
  table.read_json(configuration, name);
  if (!out_was_set) out = run_directory(reader).string();
  const auto differs = table.first_difference(configuration, kept);
  if (!differs) return;
  std::string flag = "--" + differs->key;
  std::ranges::replace(flag, '_', '-');
  throw UserError(
      "program.resume",
      detail::concatenate(flag, " ", differs->mine, " is not what ", reader.directory().string(), " was trained with (",
                          differs->theirs, "), and a resumed run keeps it; leave the flag out, or start a new run"));
}

void check_same_data(const CheckpointReader& reader, uint64_t fingerprint) {
  AXONN_CHECK(reader.state().data_fingerprint == fingerprint, "program.resume", "checkpoint ",
              reader.directory().string(),
              " was trained on other data than --data names; going on would repeat or skip samples");
}

void check_out(const std::string& out_directory, const std::optional<CheckpointReader>& resumed) {
  const fs::path out = out_directory;
  AXONN_CHECK(!out.empty(), "program.resume", "--out must name a directory");
  if (!fs::exists(out)) return;
  AXONN_CHECK(fs::is_directory(out), "program.resume", "--out ", out.string(), " is not a directory");
  if (resumed && fs::equivalent(out, run_directory(*resumed))) return;
  const auto steps = checkpoints_in(out);
  const fs::path metrics = out / "metrics.jsonl";
  const bool begun = fs::exists(metrics) && fs::file_size(metrics) > 0;
  const std::string other = "; nothing is overwritten: --out DIR begins another";
  AXONN_CHECK(steps.empty(), "program.resume", out.string(), " already holds a run, newest checkpoint ",
              steps.back().directory.string(), other, ", --resume ", out.string(), " continues it");
  AXONN_CHECK(!begun, "program.resume", out.string(), " already holds a run that never reached a checkpoint", other);
}

}  // namespace axonn
