#pragma once

#include <array>
#include <csignal>

#include <pthread.h>

namespace axonn {

// The signals with which a user or a batch system ends a run in order: those of Ctrl-C, of a time
// limit, of a terminal that ends.
//
// Products of oneDNN take the stack pointer as a register. A handler that runs on the stack of a
// thread within one writes over the heap. So the main thread handles these signals, and with
// SA_ONSTACK: on the stack that crash::install() has given it. Other threads that compute, or that
// move messages, leave them to it.
inline constexpr std::array kStopSignals = {SIGHUP, SIGINT, SIGTERM, SIGUSR1};

// Blocks them in the calling thread, and in those that it makes.
inline void leave_stop_signals_to_main() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : kStopSignals) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace axonn
