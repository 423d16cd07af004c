#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace axonn {

class NodeMemory;

// How bytes go from one rank of the job to another: MPI, threads of one process, TCP. The collectives are ours and stand on these calls.
// One thread at a time calls a transport, and one thread makes and destroys it (the progress engine sees to both); nothing here blocks.
class Transport {
 public:
  using Ticket = uint64_t;  // a message on its way; valid until test() has answered true

  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;  // "mpi", "local", "tcp"
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Messages between two ranks on one channel arrive in the order in which they were sent, and a receive takes the next one: its size must
  // be the sent size. `data` stays valid until the ticket is done. Throws BackendError with the failing call's text.
  virtual Ticket send(int peer, uint32_t channel, const void* data, size_t bytes) = 0;
  virtual Ticket receive(int peer, uint32_t channel, void* data, size_t bytes) = 0;
  virtual bool test(Ticket ticket) = 0;

  // Memory that this rank shares with others of its node; null when there is none.
  virtual std::shared_ptr<NodeMemory> node_memory() const { return nullptr; }

  // Throws BackendError when another rank is known to have given up; asked now and then while nothing moves.
  virtual void check_others() {}

  // Channels are numbered 0 .. largest_channel().
  virtual uint32_t largest_channel() const { return 0x7FFFFFFF; }

  // This rank gives up: an error is on its way. Others learn of it where the transport can tell them, and the destructor waits for nobody.
  virtual void abandon() noexcept {}

  // Gives up on the whole job (every process ends soon, exit status not 0). For a rank that cannot go on while others wait for it.
  virtual void abort(int exit_status) noexcept = 0;
};

}  // namespace axonn
