#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <axonn/checkpoint/broken_checkpoint.hpp>
#include <axonn/config/command_line.hpp>
#include <axonn/core/process_end.hpp>
#include <axonn/core/sentence.hpp>
#include <axonn/core/standard_streams.hpp>
#include <axonn/core/version.hpp>

#include "checkpoint_commands.hpp"

namespace {

constexpr const char* kAbout =
    R"(Looks at checkpoints, and writes their tensors for other programs. Needs no job: one process.

  axonn-checkpoint ls runs/a                                          its checkpoints: grid, size, age, state
  axonn-checkpoint show runs/a --configuration                        what the newest one holds
  axonn-checkpoint verify runs/a                                      every checksum
  axonn-checkpoint diff runs/a/step-000500 runs/b/step-000500         how far apart their tensors are
  axonn-checkpoint export runs/a --out model.safetensors --dtype bf16 whole tensors in one file
)";

std::vector<axonn::Subcommand> add_commands(CLI::App& app, CheckpointOptions& options) {
  CLI::App& list = *app.add_subcommand("ls", "the checkpoints of runs: grid, size, age, and whether files are missing");
  CLI::App& show =
      *app.add_subcommand("show", "step, grid and tensors of a checkpoint, a safetensors file or an index");
  CLI::App& verify = *app.add_subcommand("verify", "reads all files of checkpoints, and compares their checksums");
  CLI::App& diff = *app.add_subcommand("diff", "per tensor, max |a - b| / max |b| of two checkpoints or files");
  CLI::App& write = *app.add_subcommand("export", "writes whole tensors to a safetensors file, or to several");
  const std::string paths = "directory of a run, or one checkpoint in it";
  const std::string any = paths + "; or a safetensors file or its index";
  list.add_flag("--verify", options.verify, "reads all files, as the command verify does");
  for (CLI::App* one : {&list, &verify}) one->add_option("path", options.paths, paths)->required();
  for (CLI::App* one : {&show, &write}) one->add_option("path", options.paths, any)->required()->expected(1);
  diff.add_option("paths", options.paths, "two of: " + any)->required()->expected(2);
  show.add_option("--group", options.group, "tensors of one group only");
  show.add_flag("--tensors", options.tensors, "lists every tensor");
  show.add_flag("--configuration", options.configuration, "prints the configuration of the run");
  diff.add_option("--group", options.group,
                  "tensors of one group only, such as weights, ema or adam.m (default: all; beside a file: weights)");
  diff.add_option("--tolerance", options.tolerance, "greatest difference that is no difference")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  diff.add_option("--most", options.most, "rows of the table")->check(axonn::whole_number())->capture_default_str();
  write.add_option("--out", options.out, "file to write, model.safetensors")->required();
  write.add_option("--group", options.group, "group of the tensors (default: weights)");
  write.add_option("--dtype", options.dtype,
                   "fp64, fp32, fp16 or bf16 for tensors of real numbers (default: as stored)");
  write
      .add_option("--shard-size", options.shard_size,
                  "several files of at most so many bytes, such as 5G, and their index; 0: one file")
      ->capture_default_str();
  write.add_flag("--overwrite", options.overwrite, "replaces a file that exists");
  return {{&list, [&] { return list_checkpoints(options); }},
          {&show, [&] { return show_checkpoint(options); }},
          {&verify, [&] { return verify_checkpoints(options); }},
          {&diff, [&] { return compare_tensors(options); }},
          {&write, [&] { return export_tensors(options); }}};
}

int run_commands(int argc, char** argv) {
  CheckpointOptions options;
  CLI::App app(kAbout, "axonn-checkpoint");
  app.set_version_flag("--version", std::string(axonn::version()));
  app.footer("Exit status: 0 done; 1 a checkpoint is broken, or tensors differ; 2 an error.");
  app.require_subcommand(1);
  return axonn::run_subcommand(app, {argv, static_cast<size_t>(argc)}, add_commands(app, options));
}

int run(int argc, char** argv) {
  axonn::open_standard_streams();
  try {
    const int status = run_commands(argc, argv);
    axonn::finish_output();
    return status;
  } catch (const axonn::BrokenCheckpoint& error) {
    std::fprintf(stderr, "axonn-checkpoint: error: %s\n", error.sentence().c_str());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "axonn-checkpoint: error: %s\n", axonn::sentence_of(error).c_str());
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) { axonn::end_process(run(argc, argv)); }
