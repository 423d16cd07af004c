// Another program measures, because measuring needs MPI and this program does not link it.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <axonn/core/error.hpp>

#include "planner_commands.hpp"

int run_calibrate(char** arguments) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "axonn-calibrate";
  execv(program.c_str(), arguments);
  throw axonn::UserError(
      "axonn_config.calibrate",
      axonn::detail::concatenate("calibrate needs ", program.string(), " (", std::strerror(errno),
                                 "): build it with the trainer (cmake --build --preset release), then start "
                                 "mpirun -n RANKS axonn-config calibrate, or srun --mpi=pmix axonn-config calibrate"));
}
