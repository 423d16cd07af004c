#include "axonn/core/crash_report.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstring>

#include <unistd.h>

#include "core/fixed_text.hpp"

namespace axonn::crash {
namespace {

struct Signal {
  int number;
  std::string_view name;
};
constexpr std::array<Signal, 4> kSignals = {
    {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGABRT, "SIGABRT"}}};

struct NotedCollective {
  FixedText<32> kind, group;
  FixedText<64> tag;
  int64_t number = 0;
};

std::atomic<bool> installed{false};
std::atomic<int> job_rank{-1}, job_ranks{0};
std::atomic<int64_t> present_step{-1};
std::array<NotedCollective, 2> collectives;  // one is written while the other is the present one
std::atomic<int> present_collective{-1};

// Only what is safe in a signal handler: no allocation, no locale, no locks.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    const size_t count = std::min(text.size(), characters_.size() - size_);
    std::memcpy(characters_.data() + size_, text.data(), count);
    size_ += count;
    return *this;
  }
  Line& operator<<(int64_t number) {
    std::array<char, 20> digits{};
    size_t count = 0;
    auto rest = number < 0 ? -static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    do digits[count++] = static_cast<char>('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (number < 0) *this << "-";
    while (count > 0) *this << std::string_view(&digits[--count], 1);
    return *this;
  }
  void write() const {
    for (size_t written = 0; written < size_;) {
      const ssize_t count = ::write(STDERR_FILENO, characters_.data() + written, size_ - written);
      if (count <= 0) return;
      written += static_cast<size_t>(count);
    }
  }

 private:
  std::array<char, 512> characters_{};
  size_t size_ = 0;
};

void report(int number) {
  const int rank = job_rank, last = present_collective;
  Line line;
  line << "[fatal] ";
  if (rank >= 0) line << "rank " << rank << " of " << job_ranks.load() << ": ";
  const auto signal = std::ranges::find(kSignals, number, &Signal::number);
  line << (signal != kSignals.end() ? signal->name : "a signal") << " ends process " << int64_t{getpid()};
  if (const int64_t step = present_step; step >= 0) line << " in step " << step;
  if (last >= 0) {
    const NotedCollective& collective = collectives[static_cast<size_t>(last)];
    line << "; its last collective was " << collective.kind.view() << " #" << collective.number << " of group '"
         << collective.group.view() << "'";
    if (!collective.tag.view().empty()) line << ", tag '" << collective.tag.view() << "'";
  }
  line << "\n";
  line.write();
}

// The disposition is the default one again (SA_RESETHAND), and the signal is not blocked.
void handle(int number) {
  report(number);
  raise(number);
}

void use_own_stack() {
  static std::array<std::byte, size_t{64} << 10> stack;
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  sigaltstack(&alternative, nullptr);
}

}  // namespace

void install() {
  if (installed.exchange(true)) return;
  use_own_stack();
  for (const Signal& signal : kSignals) {
    struct sigaction before{};
    struct sigaction ours{};
    ours.sa_handler = handle;
    ours.sa_flags = static_cast<int>(SA_ONSTACK | SA_RESETHAND | SA_NODEFER);
    if (sigaction(signal.number, nullptr, &before) == 0 && before.sa_handler == SIG_DFL)
      sigaction(signal.number, &ours, nullptr);
  }
}

void set_rank(int rank, int ranks) {
  job_ranks = ranks;
  job_rank = rank;
}

void set_step(int64_t step) { present_step = step; }
int64_t step() { return present_step; }

void set_collective(const Collective& collective) {
  if (!installed) return;  // ranks that are threads of one process note nothing
  const int next = present_collective == 0 ? 1 : 0;
  NotedCollective& noted = collectives[static_cast<size_t>(next)];
  noted.kind = collective.kind;
  noted.group = collective.group;
  noted.tag = collective.tag;
  noted.number = collective.number;
  present_collective = next;
}

}  // namespace axonn::crash
