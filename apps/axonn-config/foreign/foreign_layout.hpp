#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include <axonn/core/names.hpp>
#include <axonn/grid/grid_shape.hpp>

#include "options/planner_options.hpp"

// Programs of others whose layouts are grids without Y: tensor parallelism is X, sharded data
// parallelism (FSDP, ZeRO-3) is Z, replicas are data.
enum class ForeignProgram : uint8_t {
  megatron,    // Megatron-LM's arguments, one per line
  torchtitan,  // sections [training], [parallelism] and [activation_checkpoint] of its TOML
  deepspeed,   // its JSON
};
template <>
struct axonn::Names<ForeignProgram> {
  static constexpr Named<ForeignProgram> all[] = {{"megatron", ForeignProgram::megatron},
                                                  {"torchtitan", ForeignProgram::torchtitan},
                                                  {"deepspeed", ForeignProgram::deepspeed}};
};

struct ForeignLayout {
  axonn::GridShape grid;
  int64_t batch = 1, micro_batch = 1;  // sequences: of the whole grid; of a rank and pass
  axonn::Checkpointing checkpoint = axonn::Checkpointing::off;
  bool norm_rows = false;
  axonn::ContextSplit context = {};
};

struct ExportFlags {
  std::string program;  // a ForeignProgram
  std::string file;     // import
  int64_t gpus = 1;     // import
};

// UserError for a grid with Y, and for a divided context or rows of norms that the program does not
// have.
void print_foreign(std::ostream& out, ForeignProgram program, const ForeignLayout& layout);
// The layout of a text of print_foreign(), or of such a file of a user, on so many GPUs. A batch
// that the file leaves out is what the program takes then. UserError for degrees that do not divide
// the GPUs, for a batch that does not divide over the ranks, and for what is no layout of ours.
ForeignLayout read_foreign(const std::string& text, ForeignProgram program, int64_t gpus);

int run_export(const ExportFlags& flags, const PlannerOptions& line);
// Prints the explain command of a layout that another program's file describes, for the network and
// the machine of the line; without a network, only the words that follow "explain". UserError if
// explain would refuse the command. The layout becomes the line's.
int run_import(const ExportFlags& flags, PlannerOptions& line);
