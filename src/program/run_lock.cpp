#include "program/run_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <utility>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kPrefix = "job-", kSuffix = ".lock";

std::optional<int64_t> number_of(const std::string& name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  int64_t number = 0;
  const char *begin = name.data() + kPrefix.size(), *end = name.data() + name.size() - kSuffix.size();
  const auto [rest, error] = std::from_chars(begin, end, number);
  return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

// Empty if the file is gone or cannot be read.
std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

[[noreturn]] void refuse(const fs::path& directory, const LockHolder& holder) {
  throw UserError("program.run_lock", detail::concatenate(directory.string(), " is in use by ", holder.to_string(),
                                                          "; wait for its end, or begin another run with --out DIR"));
}

}  // namespace

RunLock::RunLock(fs::path directory, const LockHolder& self, Times times, std::function<void()> on_lost)
    : directory_(std::move(directory)), self_(self), times_(times), on_lost_(std::move(on_lost)) {
  std::error_code error;
  made_directory_ = fs::create_directories(directory_, error);
  AXONN_CHECK(!error, "program.run_lock", "cannot create --out ", directory_.string(), ": ", error.message(),
              "; it must be a directory that this job may write to");
  acquire();
  thread_ = std::thread([this] { beat(); });
}

RunLock::~RunLock() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  end_.notify_all();
  thread_.join();
  withdraw();
  std::error_code ignored;
  if (made_directory_) fs::remove(directory_, ignored);  // only if it is empty
}

// Two jobs that create different locks at once see each other's afterwards, at least one of them.
// That one withdraws and looks again.
void RunLock::acquire() {
  std::minstd_rand random(std::random_device{}());
  while (true) {
    const Locks dead = wait_for_dead();
    if (!create(dead.empty() ? 1 : dead.rbegin()->first + 1)) continue;
    Locks others = locks();
    others.erase(*number_);
    if (std::ranges::includes(dead, others)) {
      std::error_code ignored;
      for (const auto& [number, text] : others) fs::remove(path(number), ignored);
      return;
    }
    withdraw();
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 100));
  }
}

// Returns the locks there, all of dead jobs.
RunLock::Locks RunLock::wait_for_dead() const {
  Locks seen = locks();
  auto since = Clock::now();
  for (bool warned = false;; std::this_thread::sleep_for(times_.look)) {
    const Locks now = locks();
    for (const auto& [number, text] : now) {
      if (!seen.contains(number) || seen.at(number) == text) continue;
      const LockHolder holder = LockHolder::from_json(text);  // names nobody if it cannot be read just now
      refuse(directory_, holder.host.empty() ? LockHolder::from_json(seen.at(number)) : holder);
    }
    if (now != seen) since = Clock::now();
    seen = now;
    bool all_dead = true;
    for (const auto& [number, text] : seen) {
      const LockHolder holder = LockHolder::from_json(text);
      const Life life = life_of(holder, self_, path(number));
      if (life == Life::alive) refuse(directory_, holder);
      if (life == Life::dead) continue;
      all_dead = false;
      if (!std::exchange(warned, true))
        log::warn(directory_.string(), " was in use by ", holder.to_string(), "; waiting up to ",
                  times_.silence.count() / 1000, " s for a sign of its life");
    }
    if (all_dead || Clock::now() - since >= times_.silence) return seen;
  }
}

bool RunLock::create(int64_t number) {
  descriptor_ = ::open(path(number).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor_ < 0 && errno == EEXIST) return false;
  const std::string text = self_.to_json(beats_);
  const bool written = descriptor_ >= 0 && ::pwrite(descriptor_, text.data(), text.size(), 0) == std::ssize(text);
  const std::string reason = std::strerror(errno);
  if (descriptor_ >= 0) number_ = number;
  if (!written) withdraw();
  AXONN_CHECK(written, "program.run_lock", "cannot write ", path(number).string(), ": ", reason,
              "; --out must name a directory that this job may write to");
  return true;
}

void RunLock::withdraw() {
  if (!number_) return;
  std::error_code ignored;
  if (!lost()) fs::remove(path(*number_), ignored);
  ::close(std::exchange(descriptor_, -1));
  number_.reset();
}

// On network file systems, the content of a file that is opened is up to date; its time may not be.
// So a count in the file is the sign of life.
void RunLock::beat() {
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, times_.beat, [this] { return ending_; })) {
    const std::string text = self_.to_json(++beats_);
    if (::pwrite(descriptor_, text.data(), text.size(), 0) == std::ssize(text)) fdatasync(descriptor_);
    if (!lost()) continue;
    on_lost_();
    return;
  }
}

// A file that cannot be read now is not taken for a lost one.
bool RunLock::lost() const {
  std::error_code error;
  if (!fs::exists(path(*number_), error)) return !error;
  const LockHolder holder = LockHolder::from_json(text_of(path(*number_)));
  return !holder.host.empty() &&
         (holder.kernel != self_.kernel || holder.process != self_.process || holder.started != self_.started);
}

fs::path RunLock::path(int64_t number) const { return directory_ / detail::concatenate(kPrefix, number, kSuffix); }

RunLock::Locks RunLock::locks() const {
  Locks found;
  for (const auto& entry : fs::directory_iterator(directory_))
    if (const auto number = number_of(entry.path().filename().string())) found[*number] = text_of(entry.path());
  return found;
}

std::unique_ptr<RunLock> lock_run(Environment& environment, const std::string& out) {
  std::unique_ptr<RunLock> lock;
  all_ranks_or_none(environment.world(), [&] {
    if (environment.rank() != 0) return;
    lock = std::make_unique<RunLock>(out, LockHolder::self(), RunLock::Times(), [&environment, out] {
      log::error(out, " was taken over by another job, because this one was silent for long; this job ends");
      environment.abort(1);
    });
  });
  return lock;
}

}  // namespace axonn
