#include "program/job_end.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "axonn/transport/launch.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/sentence.hpp"

namespace axonn {
namespace {

using namespace std::chrono_literals;

constexpr auto kOthersMayCome = 2s;
constexpr auto kRankZeroSpeaksFirst = 3s;
constexpr auto kHostsSpeakNext = 1s;
constexpr unsigned kLastWaitSeconds = 5;

// LibTorch's messages continue for pages after the first line.
std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

std::string text_of(const std::exception& error, bool verbose) {
  if (verbose) return sentence_of(error, verbose);
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return "out of memory; --dry-run predicts what a rank needs";
  if (const auto* torch = dynamic_cast<const c10::Error*>(&error)) {
    const std::string text = first_line(torch->what_without_backtrace());
    constexpr std::string_view kTried = "you tried to allocate ";
    const auto tried = text.find(kTried);
    if (tried == std::string::npos) return text;
    const std::string bytes = text.substr(tried + kTried.size());
    return "out of memory: the system refused " + bytes.substr(0, bytes.find('.')) +
           "; --dry-run predicts what a rank needs";
  }
  return sentence_of(error);
}

void print(const std::string& program, const std::string& text, int rank) {
  std::fflush(stdout);
  const std::string who = rank > 0 ? "[rank " + std::to_string(rank) + "] " : "";
  std::fprintf(stderr, "%s%s: %s\n", who.c_str(), program.c_str(), text.c_str());
}

bool another_rank_tells(const std::exception& error, MetBy met) {
  if (met == MetBy::all) return true;
  const bool of_one_rank = dynamic_cast<const OneRankError*>(&error) != nullptr;
  return !of_one_rank && dynamic_cast<const UserError*>(&error) != nullptr && !launched_first_of_host();
}

}  // namespace

int end_before_start(const std::string& program, const std::exception& error, bool verbose, MetBy met) {
  const int rank = launched_rank();
  const bool silent = rank > 0 && another_rank_tells(error, met);
  // A launcher may end the job at the first rank's exit status, before those that have to tell it.
  if (rank > 0) std::this_thread::sleep_for(kRankZeroSpeaksFirst);
  if (silent)
    std::this_thread::sleep_for(kHostsSpeakNext);
  else
    print(program, text_of(error, verbose), rank);
  return 2;
}

int end_without_output(const std::string& program, const std::exception& error, bool verbose) {
  print(program, text_of(error, verbose), launched_rank());
  return 1;
}

JobEnd::JobEnd(Environment& environment, std::string program, bool verbose)
    : environment_(environment),
      everyone_(environment.communicator(environment.world().group(), "the end")),
      program_(std::move(program)),
      verbose_(verbose) {}

int JobEnd::after(const std::exception& error) {
  const std::string text = text_of(error, verbose_);
  if (environment_.rank() == 0) print(program_, text, 0);
  bool said_by_another = false;
  if (all_came(text, said_by_another)) {
    if (!said_by_another) print(program_, text, environment_.rank());
    alarm(kLastWaitSeconds);  // limit for unfinished requests; the transport ends when all are done
    return 1;
  }
  if (environment_.rank() == 0)
    std::this_thread::sleep_for(kRankZeroSpeaksFirst - kOthersMayCome);  // time for the other ranks' messages
  else if (!environment_.hang_reported())                                // it says the same on all ranks
    print(program_, text, environment_.rank());
  environment_.abort(1);
}

bool JobEnd::all_came(const std::string& text, bool& said_by_another) {
  const at::Tensor mine = at::empty({1}, at::kLong).fill_(static_cast<int64_t>(std::hash<std::string>()(text)));
  const at::Tensor all = at::empty({environment_.ranks()}, at::kLong);
  try {
    const Request request = everyone_->all_gather(mine, all);
    const auto deadline = std::chrono::steady_clock::now() + kOthersMayCome;
    while (!request.done() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(5ms);
    if (!request.done()) return false;
    request.wait();
  } catch (const std::exception&) {  // a connection is lost, so a rank has ended
    return false;
  }
  const int64_t* hashes = all.const_data_ptr<int64_t>();
  said_by_another =
      environment_.rank() == 0 ||
      std::find(hashes, hashes + environment_.rank(), *mine.const_data_ptr<int64_t>()) != hashes + environment_.rank();
  return true;
}

}  // namespace axonn
