#include <axonn/core/process_end.hpp>

#include "commands.hpp"

int main(int argc, char** argv) {
  axonn::Program program{.name = "gpt",
                         .about = "Trains GPTs on a grid of X x Y x Z x data ranks. The default subcommand is train."};
  program.commands.push_back(make_train_command());
  program.commands.push_back(make_generate_command());
  program.commands.push_back(make_eval_command());
  program.commands.push_back(make_verify_command());
  program.commands.push_back(make_export_command());
  program.commands.push_back(make_tokenize_command());
  axonn::end_process(axonn::run_program(program, argc, argv));
}
