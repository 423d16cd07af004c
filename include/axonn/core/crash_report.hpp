#pragma once

#include <cstdint>
#include <string_view>

// The last words of a process that SIGSEGV, SIGBUS, SIGFPE or SIGABRT ends: one line on the error
// output with its rank, its step and its last collective. Then the signal ends it as usual, with a
// core file where the system writes one, and the launcher or the other ranks notice.
namespace axonn::crash {

// Installs the handlers where the program has none of its own, and gives them a stack of their own
// on the calling thread. Call it before MPI starts: handlers of Open MPI call malloc, so a crash
// inside malloc would hang. Nothing below is noted before.
void install();

// Of a job of `ranks`.
void set_rank(int rank, int ranks);

// From here on this process is in this step.
void set_step(int64_t step);
int64_t step();  // -1 before the first

// The last collective that was called. Calls from several threads at once may mix its parts.
struct Collective {
  std::string_view kind;  // "all-reduce"
  int64_t number = 0;     // on its group
  std::string_view group, tag;
};
void set_collective(const Collective& collective);

}  // namespace axonn::crash
