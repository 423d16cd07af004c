#include "axonn/program/resume.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include <nlohmann/json.hpp>

#include "axonn/checkpoint/history.hpp"
#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const CheckpointReader& reader) {
  const fs::path given = reader.directory().parent_path(), in = given.empty() ? fs::path(".") : given,
                 real = fs::canonical(reader.directory()).parent_path();
  return fs::equivalent(in, real) ? in : real;
}

bool lies_in(const CheckpointReader& reader, const fs::path& directory) {
  std::error_code ignored;  // a directory that is not there yet
  return fs::equivalent(directory, folder_of(reader), ignored);
}

bool holds_metrics(const fs::path& out) {
  const fs::path metrics = out / "metrics.jsonl";
  return fs::exists(metrics) && fs::file_size(metrics) > 0;
}

// The checkpoints in `out` as rank 0 sees them, one per line, newest first.
std::string checkpoints_of_rank_0(Communicator& everyone, const std::string& out) {
  std::string lines;
  all_ranks_or_none(everyone, [&] {
    if (everyone.rank() != 0) return;
    for (const CheckpointStep& step : checkpoints_in(out)) lines = step.directory.string() + "\n" + lines;
    if (const auto from = branched_from(out)) lines = from->string() + "\n";
  });
  return broadcast_text(everyone, lines, 0);
}

// Whether the run in `out` goes on from this one of its checkpoints, as rank 0 sees it; or has none
// of its own, and this is the one that it branched off from.
bool goes_on_from(Communicator& everyone, const CheckpointReader& reader, const std::string& out) {
  std::string other;
  all_ranks_or_none(everyone, [&] {
    if (everyone.rank() == 0 && !branched_from(out) && !is_of_history(out, reader.state())) other = "another history's";
  });
  return broadcast_text(everyone, other, 0).empty();
}

}  // namespace

void check_same_network(const OptionTable& mine, const CheckpointReader& reader) {
  const auto file = nlohmann::json::parse(reader.state().configuration, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object() || !file.contains("model") || !file["model"].is_object()) return;
  const auto is_of_images = [](const auto& keys) { return std::ranges::find(keys, "image") != keys.end(); };
  std::vector<std::string> theirs;
  for (const auto& [key, value] : file["model"].items()) theirs.push_back(key);
  const bool unet = is_of_images(theirs);
  AXONN_CHECK(unet == is_of_images(mine.keys()), "program.resume", reader.directory().string(),
              " is a checkpoint of a ", unet ? "UNet" : "GPT", "; use the program ", unet ? "unet" : "gpt", " for it");
}

std::string run_directory(Communicator& everyone, const CheckpointReader& reader) {
  std::string directory;
  all_ranks_or_none(everyone, [&] {
    if (everyone.rank() == 0) directory = folder_of(reader).string();
  });
  return broadcast_text(everyone, directory, 0);
}

void resume_options(OptionTable& table, const CheckpointReader& reader, std::span<const std::string> kept,
                    const std::string& directory, std::string& out) {
  const std::string& configuration = reader.state().configuration;
  const std::string name = (reader.directory() / "manifest.json").string();
  check_same_network(table, reader);
  const bool out_was_set = table.source("out") >= OptionTable::Source::file;
  table.read_json(configuration, name);
  if (!out_was_set) out = directory;
  const auto differs = table.first_difference(configuration, kept);
  if (!differs) return;
  std::string flag = "--" + differs->key;
  std::ranges::replace(flag, '_', '-');
  throw UserError(
      "program.resume",
      detail::concatenate(flag, " ", differs->mine, " is not what ", reader.directory().string(), " was trained with (",
                          differs->theirs, "), and a resumed run keeps it; leave the flag out, or start a new run"));
}

std::string name_for_starts(const CheckpointReader& reader, const std::string& out) {
  const fs::path real = fs::canonical(reader.directory());
  return lies_in(reader, out) ? real.filename().string() : real.string();
}

void check_still_newest(const CheckpointReader& reader, const std::string& resumed) {
  if (fs::equivalent(resumed, reader.directory())) return;  // the user named this checkpoint
  const auto steps = history_in(resumed);
  AXONN_CHECK(!steps.empty() && fs::equivalent(steps.back().directory, reader.directory()), "program.resume",
              "another job has gone on from ", reader.directory().string(), " meanwhile; start this one again");
}

void check_same_data(const CheckpointReader& reader, uint64_t fingerprint) {
  AXONN_CHECK(reader.state().data_fingerprint == fingerprint, "program.resume", "checkpoint ",
              reader.directory().string(),
              " was trained on other data than --data names; going on would repeat or skip samples");
}

std::optional<CheckpointReader> newest_whole_checkpoint(Communicator& everyone, const std::string& out) {
  std::istringstream lines(checkpoints_of_rank_0(everyone, out));
  std::string broken;
  for (std::string step; std::getline(lines, step);) {
    try {
      CheckpointReader reader(everyone, step, /*names_older=*/false);
      if (!goes_on_from(everyone, reader, out)) continue;
      all_ranks_or_none(everyone, [&] { reader.verify_share(everyone.rank(), everyone.size()); });
      return reader;
    } catch (const UserError& error) {
      if (everyone.rank() == 0) log::warn(error.sentence(), "; --resume auto tries the next older checkpoint");
      broken += (broken.empty() ? "" : "; ") + error.sentence();
    }
  }
  AXONN_CHECK(broken.empty(), "program.resume", "no checkpoint in ", out, " is whole: ", broken,
              "; copy one again, or begin another run with --out DIR");
  return std::nullopt;
}

void check_out(const std::string& out_directory, const std::optional<CheckpointReader>& resumed, bool may_be_lost) {
  const fs::path out = out_directory;
  AXONN_CHECK(!out.empty(), "program.resume", "--out must name a directory");
  if (!fs::exists(out)) return;
  AXONN_CHECK(fs::is_directory(out), "program.resume", "--out ", out.string(), " is not a directory");
  if (resumed && lies_in(*resumed, out)) return check_of_history(resumed->directory(), resumed->state());
  const auto steps = checkpoints_in(out);
  const std::string other = "; nothing is overwritten: --out DIR begins another";
  AXONN_CHECK(steps.empty(), "program.resume", out.string(), " already holds a run, newest checkpoint ",
              steps.back().directory.string(), other, ", --resume ", out.string(), " continues it");
  AXONN_CHECK(may_be_lost || !holds_metrics(out), "program.resume", out.string(),
              " already holds a run that never reached a checkpoint", other);
}

void keep_lost_metrics(const std::string& out) {
  if (!holds_metrics(out)) return;
  const fs::path metrics = fs::path(out) / "metrics.jsonl";
  fs::path kept;
  int number = 1;
  do kept = metrics.string() + "." + std::to_string(number++);
  while (fs::exists(kept));
  fs::rename(metrics, kept);
  log::warn(out, " holds a run that never reached a checkpoint: the run starts anew, its metrics are kept as ",
            kept.string());
}

}  // namespace axonn
