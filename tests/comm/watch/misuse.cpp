// misuse NAME: one of misuses(), as a job of processes. A rank prints its error. Without a name:
// the names and numbers of ranks. misuse --stop: a signal stops rank 1 before the end of the
// program.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "axonn/core/error.hpp"
#include "comm/watch/misuses.hpp"

using namespace axonn;

namespace {

void run(const Misuse& misuse) {
  Environment environment;
  environment.world().barrier().wait();
  try {
    misuse.run(environment);
  } catch (const BackendError& error) {
    std::printf("%s\n", error.what());
    std::fflush(stdout);
    throw;
  }
}

void stop_before_the_end() {
  Environment environment;
  environment.world().barrier().wait();
  if (environment.rank() == 1) std::raise(SIGSTOP);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--stop") stop_before_the_end();
  for (const Misuse& misuse : misuses()) {
    if (argc < 2) std::printf("%s\t%d\t%s\n", misuse.name.c_str(), misuse.ranks, misuse.texts.front().c_str());
    if (argc < 2 || misuse.name != argv[1]) continue;
    try {
      run(misuse);
    } catch (const BackendError&) {
      std::quick_exit(1);  // another rank's output may still come
    }
  }
}
