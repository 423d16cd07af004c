#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace axonn {

// The place where rank 0 of a job over TCP listens.
struct MeetingPoint {
  std::vector<std::string> hosts;  // names and addresses of its host, the best first
  int port = 0;
  std::string secret;  // the job's; "": none
};

// How the ranks of a job over TCP learn where rank 0 listens.
class MeetingPlace {
 public:
  virtual ~MeetingPlace() = default;

  // Rank 0: where it shall listen. Port 0: any free port. Without hosts: on every interface.
  virtual MeetingPoint wanted() const = 0;
  // Rank 0, once it listens at this port. BackendError where the others could not learn of it.
  virtual void publish(int port) = 0;
  // Rank 0, once all have come.
  virtual void close() {}

  // The others, again and again until they reach rank 0: nothing as long as it is not known.
  virtual std::optional<MeetingPoint> find() = 0;
  // For error messages: "127.0.0.1 port 29500", "the file runs/init".
  virtual std::string name() const = 0;
  // Whether find() may later give another point: then one that is wrong now is no error yet.
  virtual bool may_change() const { return true; }
  virtual std::string need() const = 0;  // the user's task: "need MASTER_ADDR and ..."
};

// At an address and a port that every rank was given. `secret` as in MeetingPoint.
// UserError for a port outside 1 .. 65535.
std::unique_ptr<MeetingPlace> meet_at(std::string host, int port, std::string secret);

// At one of these hosts, which the others try in turn. Rank 0 listens on every interface.
std::unique_ptr<MeetingPlace> meet_at_one_of(std::vector<std::string> hosts, int port, std::string secret);

// In a file that all hosts see. Rank 0 writes it, readable only for its user, and removes it once
// all have come. A file of an earlier job does no harm: nobody listens there, or not with its
// secret.
std::unique_ptr<MeetingPlace> meet_in_file(std::string path);

// In the store that torchrun's agent keeps at an address and a port. `key` names this job and
// restart.
std::unique_ptr<MeetingPlace> meet_in_agent_store(std::string host, int port, std::string key);

// The text in a file or a store. Nothing if it is no such text, as of a file half written.
std::string text_of(const MeetingPoint& point);
std::optional<MeetingPoint> parse_meeting_point(const std::string& text);

// This host's name and its addresses, loopback only if it has no other.
std::vector<std::string> hosts_of_this_process();

}  // namespace axonn
