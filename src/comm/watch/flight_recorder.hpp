#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace axonn {

// Channels of collectives that a device carries out are those of the host with this bit.
inline constexpr uint32_t kDeviceChannel = uint32_t{1} << 31;

// A call's facts beside its bytes. -1: it has none.
struct CallDetails {
  uint64_t signature = 0;  // signature_of()
  uint64_t moment = 0;     // StepMoment::packed()
  int8_t type = -1;        // at::ScalarType
  int8_t operation = -1;   // ReduceOp
  int8_t priority = -1;    // Priority
  int root = -1;           // in the group
  int peer = -1;           // rank of the job, of a send or a receive
  bool by_program = true;  // by the thread that made the Environment
};

// A collective, send or receive that a rank has called.
struct CallRecord {
  std::string collective, group, tag;  // "all-reduce", "x", "h.3.mlp.up backward"
  int64_t number = 0;                  // from 1; collectives count alike on all ranks of a group
  int64_t bytes = 0;
  int64_t step = -1;              // -1: before the first
  int64_t called = 0, ended = 0;  // microseconds since 1970; `ended` 0: it has not
  uint32_t channel = 0;
  CallDetails details;  // not written to files and letters, nor is the order
  int64_t order = 0;

  bool on_device() const { return (channel & kDeviceChannel) != 0; }
  bool point_to_point() const;
  std::string text() const;  // those of its FlightRecorder::Call
  std::string full_text() const;
};
void to_json(nlohmann::json& json, const CallRecord& record);
void from_json(const nlohmann::json& json, CallRecord& record);

// The last calls of a rank: the newest kRecords calls, and the newest of each channel. Memory is
// taken at the start and at the first call on a channel. Calls of any thread.
class FlightRecorder {
 public:
  static constexpr size_t kRecords = 512;

  struct Call {
    std::string_view collective, group, tag;
    int64_t number = 0;
    int64_t bytes = 0;
    uint32_t channel = 0;
    CallDetails details = {};

    bool point_to_point() const;
    std::string text() const;       // "all-reduce #12 of group 'x' (64.0 KiB = 65536 bytes, tag '...')"
    std::string full_text() const;  // and its type, operation, root or peer, and step
  };

  // A call as another rank knows it: the n-th collective of a channel, or the n-th message from one
  // rank to another. Call::number counts the collectives of all channels of a group.
  struct Key {
    uint32_t channel = 0;
    int64_t order = 0;   // from 1
    int peer = -1;       // rank of the job; -1: a collective
    bool sends = false;  // this rank, the peer
  };

  FlightRecorder();
  ~FlightRecorder();

  // Returns the record's number, for ended().
  uint64_t called(const Call& call);
  void ended(uint64_t record);

  std::vector<CallRecord> last(size_t most) const;  // oldest first
  // Of a call whose record may be too old to be remembered; then without its time and step.
  CallRecord find(uint64_t record, const Call& call) const;
  // By channel: the number of the last collective that was called on it.
  std::unordered_map<uint32_t, int64_t> last_numbers() const;

  int64_t order(uint64_t record) const;  // Key's; 0 if it is not remembered
  bool has_called(const Key& key) const;
  std::optional<CallRecord> find(const Key& key) const;  // if it is remembered
  // Collectives before this one on a channel, the newest that are remembered; oldest first.
  std::vector<CallRecord> before(const Key& collective, size_t most) const;
  // Whether a thread other than the program's has called something on this channel.
  bool called_by_others(uint32_t channel) const;

 private:
  struct Entry;
  using Line = std::tuple<uint32_t, int, bool>;  // Key's, without its order

  mutable std::mutex mutex_;
  std::unique_ptr<Entry[]> entries_;  // a ring
  uint64_t count_ = 0;
  std::unordered_map<uint32_t, int64_t> last_numbers_;
  std::map<Line, int64_t> last_orders_;
  std::unordered_set<uint32_t> called_by_others_;
};

// "rank-0003.jsonl": one line about the rank, then one per record, oldest first.
std::string flight_file_name(int rank);
void write_flight_file(const std::filesystem::path& directory, int rank, const std::string& why,
                       const std::vector<CallRecord>& records);

}  // namespace axonn
