#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace axonn {

class NodeMemory;

// The error when rank `peer` has sent a message of another size than rank `rank` receives.
std::string other_size(int peer, size_t sent, int rank, size_t expected);

// Moves bytes from one rank of the job to another: MPI, threads of one process, TCP. Our
// collectives are built on these calls. One thread at a time calls a transport, and one thread
// makes and destroys it; the progress engine ensures both. Nothing here blocks.
class Transport {
 public:
  using Ticket = uint64_t;  // an unfinished message; valid until test() has returned true

  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;               // "mpi", "local", "tcp"
  virtual std::string_view library() const { return {}; }  // that it calls, and its version; empty: none
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Messages between two ranks on one channel arrive in the order in which they were sent. A
  // receive takes the next one, and its size must be the sent size. `data` must stay valid until
  // the ticket is done. Throws BackendError with the failing call's text.
  virtual Ticket send(int peer, uint32_t channel, const void* data, size_t bytes) = 0;
  virtual Ticket receive(int peer, uint32_t channel, void* data, size_t bytes) = 0;
  virtual bool test(Ticket ticket) = 0;

  // A letter is a message on this channel. Its receiver posts no receive before letter() tells of
  // it, and posts one then. Letters of one sender are told of in their order.
  static constexpr uint32_t kLetters = 3;
  struct Letter {
    int from;
    size_t bytes;
  };
  virtual std::optional<Letter> letter() = 0;

  // Memory that this rank shares with others of its node; null when there is none.
  virtual std::shared_ptr<NodeMemory> node_memory() const { return nullptr; }

  // Throws BackendError when another rank is known to have given up. Called now and then while
  // nothing moves.
  virtual void check_others() {}

  // Channels are numbered 0 .. largest_channel().
  virtual uint32_t largest_channel() const { return 0x7FFFFFFF; }

  // This rank gives up because an error is propagating. The transport notifies the others if it
  // can, and the destructor waits for nobody.
  virtual void abandon(const std::string& /*why*/) noexcept {}

  // Ends the whole job: every process exits soon, with a status other than 0. For a rank that
  // cannot continue while others wait for it.
  virtual void abort(int exit_status) noexcept = 0;
};

}  // namespace axonn
