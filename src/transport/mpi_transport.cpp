#include "transport/mpi_transport.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <mpi.h>

#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "transport/mpi_family.hpp"
#include "transport/node/node_memory.hpp"
#include "transport/node/shared_region.hpp"

namespace axonn {
namespace {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  text.resize(static_cast<size_t>(length));
  throw BackendError("comm.mpi", detail::concatenate(call, " failed: ", text));
}

constexpr int kMostReason = 512;  // bytes

// Either every rank of the node maps the regions of all, or none does. If none does, messages on
// the node go through MPI too.
std::shared_ptr<NodeMemory> share_memory(MPI_Comm node, int rank) {
  int ranks = 0;
  check(MPI_Comm_size(node, &ranks), "MPI_Comm_size");
  if (ranks == 1) return nullptr;
  std::optional<OwnRegion> own;
  std::vector<RegionAddress> addresses(static_cast<size_t>(ranks));
  std::vector<NodeMemory::Member> members;
  auto mappings = std::make_shared<std::vector<std::shared_ptr<std::byte>>>();
  std::string reason;
  RegionAddress address{.rank = rank};
  try {
    own.emplace(rank);
    address = own->address();
  } catch (const BackendError& error) {
    reason = error.sentence();
  }
  check(MPI_Allgather(&address, sizeof address, MPI_BYTE, addresses.data(), sizeof address, MPI_BYTE, node),
        "MPI_Allgather");
  if (std::ranges::any_of(addresses, [](const auto& other) { return other.file < 0; })) addresses.clear();
  try {
    for (const RegionAddress& other : addresses) {
      mappings->push_back(other.rank == rank ? own->region() : open_region(other));
      members.push_back({other.rank, mappings->back().get()});
    }
  } catch (const BackendError& error) {
    reason = error.sentence();
  }
  int place = 0;
  check(MPI_Comm_rank(node, &place), "MPI_Comm_rank");
  int first = reason.empty() ? ranks : place;  // that has a reason
  check(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, node), "MPI_Allreduce");
  if (first == ranks) return std::make_shared<NodeMemory>(rank, std::move(members), std::move(mappings));
  reason.resize(kMostReason, ' ');
  check(MPI_Bcast(reason.data(), kMostReason, MPI_CHAR, first, node), "MPI_Bcast");
  reason.erase(reason.find_last_not_of(' ') + 1);
  if (place == 0)
    log::warn("ranks of this node exchange messages instead of sharing memory, which is slower: ", reason);
  return nullptr;
}

// The name in what MPI says of itself: "Open MPI v4.1.4, package: ...", or "MPICH Version: 4.0.2"
// and more lines.
std::string library_name() {
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  check(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  text.resize(std::min(static_cast<size_t>(length), text.find_first_of(",\n")));
  std::ranges::replace(text, '\t', ' ');
  return text;
}

class MpiTransport final : public Transport {
 public:
  MpiTransport(NodePlace& place, int launched_ranks) {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    try {
      start(place, provided, launched_ranks);
    } catch (const UserError&) {
      MPI_Finalize();
      throw;
    }
  }

  // After abandon() MPI_Finalize would wait for the other ranks for ever. The launcher ends the job
  // when a process exits without it.
  ~MpiTransport() override {
    if (!abandoned_ && MPI_Finalize() != MPI_SUCCESS) log::error("MPI_Finalize failed");
  }

  std::string_view name() const override { return "mpi"; }
  std::string_view library() const override { return library_; }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  std::shared_ptr<NodeMemory> node_memory() const override { return node_memory_; }
  uint32_t largest_channel() const override { return largest_channel_; }

  Ticket send(int peer, uint32_t channel, const void* data, size_t bytes) override {
    const Ticket ticket = add({.peer = peer});
    check(MPI_Isend(data, count(bytes), MPI_BYTE, peer, static_cast<int>(channel), comm_, &messages_[ticket].request),
          "MPI_Isend");
    return ticket;
  }

  Ticket receive(int peer, uint32_t channel, void* data, size_t bytes) override {
    const Ticket ticket = add({.peer = peer, .expected = count(bytes)});
    check(MPI_Irecv(data, count(bytes), MPI_BYTE, peer, static_cast<int>(channel), comm_, &messages_[ticket].request),
          "MPI_Irecv");
    return ticket;
  }

  bool test(Ticket ticket) override {
    int done = 0;
    MPI_Status status;
    Message& message = messages_[ticket];
    check(MPI_Test(&message.request, &done, &status), "MPI_Test");
    if (done == 0) return false;
    free_.push_back(ticket);
    if (message.expected >= 0) check_bytes(message, status);
    return true;
  }

  std::optional<Letter> letter() override {
    int found = 0, bytes = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, static_cast<int>(kLetters), comm_, &found, &status), "MPI_Iprobe");
    if (found == 0) return std::nullopt;
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    return Letter{status.MPI_SOURCE, static_cast<size_t>(bytes)};
  }

  void abandon(const std::string&) noexcept override { abandoned_ = true; }

  void abort(int exit_status) noexcept override {
    MPI_Abort(MPI_COMM_WORLD, exit_status);
    std::_Exit(exit_status);
  }

 private:
  void start(NodePlace& place, int provided, int launched_ranks) {
    AXONN_CHECK(provided >= MPI_THREAD_SERIALIZED, "comm.mpi", library_name(),
                " lets no thread other than main call it (MPI_THREAD_SERIALIZED); use an MPI that was built with "
                "threads, or set AXONN_TRANSPORT=tcp");
    library_ = library_name();
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &ranks_), "MPI_Comm_size");
    AXONN_CHECK(ranks_ > 1 || launched_ranks <= 1, "comm.mpi", "the launcher started ", launched_ranks,
                " processes, and ", library_name(),
                " finds a job of one: the launcher speaks to another MPI. Start "
                "them with the mpiexec of this MPI, or with an srun --mpi=TYPE that it supports (srun --mpi=list), or "
                "set AXONN_TRANSPORT=tcp");
    MPI_Comm node = MPI_COMM_NULL;
    check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
    check(MPI_Comm_rank(node, &place.rank), "MPI_Comm_rank");
    check(MPI_Comm_size(node, &place.ranks), "MPI_Comm_size");
    node_memory_ = share_memory(node, rank_);
    check(MPI_Comm_free(&node), "MPI_Comm_free");
    int found = 0;
    void* limit = nullptr;
    check(MPI_Comm_get_attr(comm_, MPI_TAG_UB, &limit, &found), "MPI_Comm_get_attr");
    if (found != 0) largest_channel_ = static_cast<uint32_t>(*static_cast<int*>(limit));
  }

  struct Message {
    int peer = 0;
    int expected = -1;  // bytes of a receive; -1: a send
    MPI_Request request = MPI_REQUEST_NULL;
  };

  // MPI itself reports only messages that are longer than their receive.
  void check_bytes(const Message& message, const MPI_Status& status) const {
    int sent = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &sent), "MPI_Get_count");
    if (sent != message.expected)
      throw BackendError("comm.mpi", other_size(message.peer, static_cast<size_t>(sent), rank_,
                                                static_cast<size_t>(message.expected)));
  }

  static int count(size_t bytes) {
    AXONN_ASSERT(bytes <= static_cast<size_t>(std::numeric_limits<int>::max()), "a message of ", bytes, " bytes");
    return static_cast<int>(bytes);
  }

  Ticket add(Message message) {
    if (free_.empty()) {
      messages_.push_back(message);
      return messages_.size() - 1;
    }
    const Ticket ticket = free_.back();
    free_.pop_back();
    messages_[ticket] = message;
    return ticket;
  }

  std::string library_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, ranks_ = 1;
  uint32_t largest_channel_ = 32767;  // minimum that the MPI standard guarantees
  bool abandoned_ = false;
  std::shared_ptr<NodeMemory> node_memory_;
  std::vector<Message> messages_;  // by ticket
  std::vector<Ticket> free_;
};

}  // namespace

#ifdef OPEN_MPI
MpiFamily built_mpi() { return MpiFamily::open_mpi; }
#else
MpiFamily built_mpi() { return MpiFamily::mpich; }
#endif

std::unique_ptr<Transport> make_mpi_transport(NodePlace& place, int launched_ranks) {
  return std::make_unique<MpiTransport>(place, launched_ranks);
}

}  // namespace axonn
