#include "program/lock_holder.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <optional>
#include <sstream>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "axonn/core/env.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/host_name.hpp"
#include "core/files.hpp"
#include "core/utc_time.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

// Whatever two processes must share so that they can compare numbers of processes.
std::string kernel_of_this_process() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code error;
  return boot + " " + fs::read_symlink("/proc/self/ns/pid", error).string();
}

struct ProcessState {
  char state = '?';
  std::string started;
};

// See proc(5): the name, in brackets, can hold anything; the state is the first field after it, the
// start the twentieth.
std::optional<ProcessState> state_of(int64_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  if (!std::getline(in, text)) return std::nullopt;
  std::istringstream fields(text.substr(std::min(text.rfind(')') + 1, text.size())));
  ProcessState found;
  fields >> found.state;
  for (int field = 2; field <= 20; ++field) fields >> found.started;
  return found;
}

bool is_there(const LockHolder& holder) {
  const auto found = state_of(holder.process);
  if (!found) return kill(static_cast<pid_t>(holder.process), 0) == 0 || errno != ESRCH;
  return found->state != 'Z' && found->state != 'X' && found->started == holder.started;
}

// Whether a process of this kernel has the lock open, as its holder does. Otherwise the lock is a
// copy, made with the directory while its job was at work.
bool has_open(const LockHolder& holder, const fs::path& lock) {
  std::error_code error;
  fs::directory_iterator files("/proc/" + std::to_string(holder.process) + "/fd", error);
  if (error) return true;  // another user's: nobody can tell
  for (; files != fs::directory_iterator(); files.increment(error)) {
    std::error_code closed;
    if (fs::equivalent(files->path(), lock, closed)) return true;
    if (error) return true;
  }
  return false;
}

}  // namespace

Life life_of(const LockHolder& holder, const LockHolder& self, const fs::path& lock) {
  if (!holder.job.empty() && holder.job == self.job && holder.restarts < self.restarts) return Life::dead;
  if (holder.kernel.empty() || holder.kernel != self.kernel) return Life::unknown;
  return is_there(holder) && has_open(holder, lock) ? Life::alive : Life::dead;
}

LockHolder LockHolder::self() {
  LockHolder self{.host = host_name(), .kernel = kernel_of_this_process(), .process = getpid(), .since = utc_now()};
  if (const auto state = state_of(self.process)) self.started = state->started;
  self.job = env::get("SLURM_JOB_ID").value_or("");
  self.restarts = env::get_int("SLURM_RESTART_COUNT").value_or(0);
  return self;
}

LockHolder LockHolder::from_json(const std::string& text) {
  const json record = json::parse(text, nullptr, /*allow_exceptions=*/false);
  LockHolder holder;
  if (!record.is_object()) return holder;
  const auto take = [&](const char* key, auto& value) {
    using Value = std::remove_reference_t<decltype(value)>;
    if (const auto found = record.find(key); found != record.end())
      if (std::is_arithmetic_v<Value> ? found->is_number_integer() : found->is_string()) value = found->get<Value>();
  };
  take("host", holder.host);
  take("kernel", holder.kernel);
  take("process", holder.process);
  take("started", holder.started);
  take("job", holder.job);
  take("restarts", holder.restarts);
  take("since", holder.since);
  return holder;
}

std::string LockHolder::to_json(uint64_t beats) const {
  return json{{"host", host}, {"kernel", kernel},     {"process", process}, {"started", started},
              {"job", job},   {"restarts", restarts}, {"since", since},     {"beats", disk::hex(beats)}}
             .dump() +
         "\n";
}

std::string LockHolder::to_string() const {
  if (host.empty()) return "a job that its lock does not name";
  return detail::concatenate("process ", process, " on host ", host, job.empty() ? "" : " (Slurm job " + job + ")",
                             " since ", since);
}

}  // namespace axonn
