#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "transport/transport.hpp"
#include "comm/watch/hang_letter.hpp"
#include "comm/watch/hang_report.hpp"
#include "comm/watch/tree_letters.hpp"

namespace axonn {

// Ends a job that cannot go on, and finds out why one hangs. When a rank has waited too long, rank
// 0 asks all ranks what they do, logs one report, and tells every rank its first sentence. Ranks
// answer from their engines, also when their program hangs elsewhere; a rank that does not answer
// is stopped or gone. Each rank that is asked writes all that it remembers into its flight file.
//
// Question, answers and verdict go over the tree of ranks (TreeLetters). A rank passes on the
// answers of those below it as they come, a few times at most, so that only rank 0 has to know
// when it has waited long enough.
//
// Nothing here blocks. All calls are under the engine's lock.
class HangEnquiry {
 public:
  using Clock = std::chrono::steady_clock;

  // Asked for when this rank has to say what it does.
  using Describe = std::function<HangState()>;

  // Takes the probes of other ranks.
  using Answer = std::function<void(WaitProbe probe)>;

  // Another clock for ranks that share a thread, and come to their letters in turns.
  using Now = TreeLetters::Now;

  HangEnquiry(Transport& transport, const FlightRecorder& recorder, Describe describe, std::chrono::seconds limit,
              Answer answer = {}, Now now = Clock::now)
      : rank_(transport.rank()),
        ranks_(transport.ranks()),
        recorder_(recorder),
        describe_(std::move(describe)),
        answer_(std::move(answer)),
        limit_(limit),
        now_(std::move(now)),
        letters_(transport, [this](int from, HangLetter letter) { take(from, std::move(letter)); }, now_) {}

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
  struct Asker {
    int rank;
    Clock::time_point last;  // when it asked, or got something
    size_t sent = 0;         // states
  };
  struct FlightFile;

  void start();
  void raise_alarm();
  void ask_below(const std::string& why);
  void take(int from, HangLetter letter);
  void add(HangState state);
  bool all_have_answered() const;
  void answer();
  void conclude();
  void take_verdict(const std::string& verdict);
  bool may_end() const;
  void write_flight_file(const std::string& why);
  bool written() const;
  Clock::duration for_more_levels() const;  // levels of the tree beyond the first

  const int rank_, ranks_;
  const FlightRecorder& recorder_;
  const Describe describe_;
  const Answer answer_;
  const std::chrono::seconds limit_;
  const Now now_;
  std::filesystem::path directory_;
  TreeLetters letters_;

  std::optional<Clock::time_point> began_;  // this rank heard of the hang
  std::optional<Clock::time_point> asked_;
  std::string own_;  // empty: this rank does not hang itself
  bool raised_ = false, reported_ = false;
  std::vector<HangState> states_;  // this rank's, and of those below it
  std::set<int> known_;            // their ranks
  std::vector<Asker> askers_;      // the parent, or who goes around it
  std::optional<std::string> verdict_;
  Clock::time_point concluded_;  // when the verdict was known
  std::shared_ptr<FlightFile> file_;
};

}  // namespace axonn
