#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/transport/transport.hpp"
#include "comm/watch/hang_letter.hpp"
#include "comm/watch/hang_report.hpp"

namespace axonn {

// Ends a job that cannot go on, and finds out why one hangs. When a rank has waited too long, rank
// 0 asks all ranks what they do, logs one report, and tells every rank its first sentence. Ranks
// answer from their engines, also when their program hangs elsewhere; a rank that does not answer
// is stopped or gone. Each rank that is asked writes all that it remembers into its flight file.
//
// The questions are letters: Transport::letter(). Nothing here blocks. All calls are under the
// engine's lock.
class HangEnquiry {
 public:
  using Clock = std::chrono::steady_clock;

  // Asked for when this rank has to say what it does.
  using Describe = std::function<HangState()>;

  // Takes the probes of other ranks.
  using Answer = std::function<void(WaitProbe probe)>;

  HangEnquiry(Transport& transport, const FlightRecorder& recorder, Describe describe, std::chrono::seconds limit,
              Answer answer = {})
      : transport_(transport),
        recorder_(recorder),
        describe_(std::move(describe)),
        answer_(std::move(answer)),
        limit_(limit) {}

  // The place of the flight file; without a directory there is none.
  void set_directory(std::filesystem::path directory) { directory_ = std::move(directory); }

  // A call of this rank has made no progress for the limit. `own` is the rank's error should rank 0
  // not answer.
  void begin(const std::string& own);

  bool under_way() const { return began_.has_value(); }

  // Asks a rank, which may end the job.
  void probe(int rank, const WaitProbe& probe);

  // Ends the job: this rank knows what is wrong, and tells all others. Rank 0 logs it.
  void end_job(const std::string& error);

  // Reads and answers letters. Returns the error of every call of this rank as soon as it is known.
  std::optional<std::string> poll();

  // Rank 0's verdict if its letter is here, else `error`: after the verdict, ranks see others end.
  std::string verdict_or(const std::string& error) noexcept;

  // Whether rank 0 logs the report to which the error belongs.
  bool reported() const { return reported_; }

 private:
  struct Sent {
    std::vector<uint8_t> bytes;
    Transport::Ticket ticket;
  };
  struct Arriving {
    int from;
    std::vector<uint8_t> bytes;
    Transport::Ticket ticket;
  };
  struct FlightFile;

  void start();
  void read_letters();
  void read(int from, const std::vector<uint8_t>& bytes);
  void take(int from, HangLetter letter);
  void send(int rank, const HangLetter& letter);
  bool all_sent();
  void write_flight_file(const std::string& why);
  bool written() const;
  void answer_if_ready();
  void conclude();
  void take_verdict(const std::string& verdict);

  Transport& transport_;
  const FlightRecorder& recorder_;
  const Describe describe_;
  const Answer answer_;
  const std::chrono::seconds limit_;
  std::filesystem::path directory_;

  std::optional<Clock::time_point> began_;  // this rank heard of the hang
  std::string own_;                         // empty: this rank does not hang itself
  bool asked_ = false, answered_ = false, reported_ = false;
  std::vector<HangState> states_;  // rank 0: answers, its own first
  std::optional<std::string> verdict_;
  Clock::time_point concluded_;  // when the verdict was known
  std::shared_ptr<FlightFile> file_;
  std::vector<Sent> sent_;
  std::vector<Arriving> arriving_;
};

}  // namespace axonn
