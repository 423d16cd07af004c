#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "transport/loopback.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace axonn {

using Bytes = std::vector<std::byte>;
inline constexpr const char* kLoopback = "127.0.0.1";

// A connection to a port of this host, where somebody will soon listen.
inline Descriptor knock(int port) {
  for (const tcp::Deadline deadline(std::chrono::seconds(10)); !deadline.passed();) {
    if (Descriptor socket = try_loopback(port); socket.open()) return socket;
    std::this_thread::yield();
  }
  ADD_FAILURE() << "nobody listens at port " << port;
  return Descriptor();
}

inline TcpOptions job(int rank, int ranks, int port, std::chrono::milliseconds patience = std::chrono::seconds(60)) {
  return {.rank = rank, .ranks = ranks, .meeting_place = meet_at(kLoopback, port, "s"), .patience = patience};
}

inline std::unique_ptr<Transport> make(int rank, int ranks, int port,
                                       std::chrono::milliseconds patience = std::chrono::seconds(60)) {
  return make_tcp_transport(job(rank, ranks, port, patience));
}

// Runs `body` on one thread per rank; rethrows the first exception.
inline void as_ranks(int ranks, const std::function<void(Transport&)>& body) {
  const int port = free_port();
  std::vector<std::exception_ptr> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(*make(rank, ranks, port));
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// Runs `body` in a child process as a rank; returns its process id.
inline pid_t fork_rank(const TcpOptions& options, const std::function<void(Transport&)>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      body(*make_tcp_transport(options));
    } catch (const Error& error) {
      std::fprintf(stderr, "rank %d: %s\n", options.rank, error.what());
      ::_exit(70);
    }
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  return child;
}

inline pid_t fork_rank_1(int port, const std::function<void(Transport&)>& body) {
  return fork_rank(job(1, 2, port), body);
}

inline int exit_status(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

inline void finish(Transport& transport, Transport::Ticket ticket) {
  while (!transport.test(ticket)) std::this_thread::yield();
}

template <typename Failure = BackendError, typename Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Failure& error) {
    return error.sentence();
  }
  return "no error";
}

}  // namespace axonn
