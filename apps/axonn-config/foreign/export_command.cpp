// The commands export and import: a layout in the words of other programs, and back.
#include <fstream>
#include <iostream>
#include <iterator>

#include <axonn/core/error.hpp>
#include <axonn/core/sentence.hpp>

#include "foreign/foreign_programs.hpp"
#include "planner_commands.hpp"

namespace {

constexpr const char* kWhere = "axonn_config.export";

// UserError if `explain` would refuse the layout.
void check_explained(const PlannerOptions& line, const axonn::GridShape& grid, const std::string& words) {
  try {
    const axonn::NetworkModel network = line.planned_network();
    (void)plan_grid(network, axonn::find_machine(line.machine), line.search(network), grid);
  } catch (const axonn::UserError& error) {
    throw axonn::UserError(kWhere, "the file describes " + words + "; explain refuses that: " + error.sentence());
  }
}

// How its context differs from ours.
std::string what_if_of(const ForeignLayout& layout) {
  if (layout.context.ranks == 1) return "";
  const bool over_data = layout.grid.z == 1;
  const std::string gathers = layout.context.gathers ? "gather-keys" : "";
  return gathers + (over_data ? (gathers.empty() ? "" : ",") + std::string("context-over-data") : "");
}

}  // namespace

void print_foreign(std::ostream& out, ForeignProgram program, const ForeignLayout& layout) {
  AXONN_CHECK(layout.grid.y == 1, kWhere, axonn::to_string(program), " has no axis y: grid ", layout.grid.to_string(),
              " divides weights over it; search with --fix y=1");
  switch (program) {
    case ForeignProgram::megatron:
      return print_megatron(out, layout);
    case ForeignProgram::torchtitan:
      return print_torchtitan(out, layout);
    case ForeignProgram::deepspeed:
      return print_deepspeed(out, layout);
  }
}

ForeignLayout read_foreign(const std::string& text, ForeignProgram program, int64_t gpus) {
  switch (program) {
    case ForeignProgram::megatron:
      return read_megatron(words_of_arguments(text), gpus);
    case ForeignProgram::torchtitan:
      return read_torchtitan(words_of_toml(text), gpus);
    case ForeignProgram::deepspeed:
      return read_deepspeed(words_of_json(text), gpus);
  }
  return {};
}

int run_export(const ExportFlags& flags, const PlannerOptions& line) {
  line.refuse_beyond_export();
  const auto network = line.planned_network();
  const auto options = line.search(network);
  const auto layout =
      plan_grid(network, axonn::find_machine(line.machine), options, axonn::parse_grid_shape(line.grid));
  print_foreign(std::cout, axonn::parse_name<ForeignProgram>(flags.program, "--to"),
                {.grid = layout.grid,
                 .batch = options.batch_tokens / network.tokens_per_sample,
                 .micro_batch = layout.micro_batch,
                 .checkpoint = layout.checkpoint() ? axonn::Checkpointing::on : axonn::Checkpointing::off,
                 .norm_rows = layout.norm_rows,
                 .context = layout.context});
  return 0;
}

int run_import(const ExportFlags& flags, PlannerOptions& line) {
  AXONN_CHECK(flags.gpus >= 1 && flags.gpus <= (1 << 20), kWhere, "--gpus must be from 1 to ", 1 << 20, ", got ",
              flags.gpus);
  std::ifstream in(flags.file, std::ios::binary);
  AXONN_CHECK(in, kWhere, "cannot read ", flags.file, ": ", axonn::why_not_read(flags.file));
  const auto layout = read_foreign(std::string(std::istreambuf_iterator<char>(in), {}),
                                   axonn::parse_name<ForeignProgram>(flags.program, "--from"), flags.gpus);
  check_shape(layout.grid, flags.gpus);
  const int on = layout.grid.z > 1 ? layout.grid.z : layout.grid.data;
  AXONN_CHECK(on % layout.context.ranks == 0, kWhere, "a context of ", layout.context.ranks,
              " ranks must divide the ranks that share or replicate the weights, got ", on);
  line.batch.samples = layout.batch;
  line.training.micro_batch = layout.micro_batch;
  line.training.checkpointing = layout.checkpoint;
  line.training.norm_rows = layout.norm_rows ? axonn::NormRows::on : axonn::NormRows::off;
  std::string words = axonn::detail::concatenate(layout.grid.to_string(), " --batch ", layout.batch, " --micro-batch ",
                                                 layout.micro_batch, " --checkpoint ", to_string(layout.checkpoint));
  if (layout.norm_rows) words += " --norm-rows on";
  line.training.context = layout.context.ranks;
  if (layout.context.ranks > 1) words += " --context " + std::to_string(layout.context.ranks);
  line.what_ifs.words = what_if_of(layout);
  if (!line.what_ifs.words.empty()) words += " --what-if " + line.what_ifs.words;
  const bool whole = line.network.given();
  if (whole) check_explained(line, layout.grid, words);
  std::cout << (whole ? "axonn-config explain " : "") << words << line.repeated() << "\n";
  return 0;
}
