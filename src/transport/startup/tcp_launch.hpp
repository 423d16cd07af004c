#pragma once

#include <memory>
#include <optional>

#include "transport/startup/meeting_place.hpp"

namespace axonn {

// One process of a job over TCP, as its launcher's variables describe it.
struct TcpLaunch {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;   // within the node
  int local_ranks = 1;  // on this node
  std::shared_ptr<MeetingPlace> meeting_place;
};

// Nothing if no launcher started this process, or only one of this kind. UserError if its variables
// contradict each other, or if it is one of several and nothing says where they meet.
std::optional<TcpLaunch> tcp_launch();

}  // namespace axonn
