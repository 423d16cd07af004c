#include "transport/startup/slurm_step.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "axonn/core/error.hpp"

namespace axonn::slurm {
namespace {

// Below the ports that Linux gives to outgoing connections.
constexpr int kFirstPort = 20'000, kPorts = 12'000;

}  // namespace

std::string first_host(std::string_view list) {
  std::string host;
  for (size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const size_t end = list.find(']', i);
    const std::string_view numbers = list.substr(i + 1, end == list.npos ? list.npos : end - i - 1);
    host += numbers.substr(0, numbers.find_first_of(",-"));
    if (end == list.npos) break;
    i = end;
  }
  return host;
}

std::vector<int> tasks_per_node(std::string_view text) {
  const auto refuse = [&] {
    throw UserError("comm.slurm",
                    detail::concatenate("SLURM_STEP_TASKS_PER_NODE must be a text such as 4(x2),3, got '", text, "'"));
  };
  const char *at = text.data(), *const end = text.data() + text.size();
  const auto number = [&] {
    int value = 0;
    const auto [after, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0) refuse();
    at = after;
    return value;
  };
  std::vector<int> tasks;
  while (at != end) {
    const int count = number();
    int nodes = 1;
    if (end - at > 2 && at[0] == '(' && at[1] == 'x') {
      at += 2;
      nodes = number();
      if (at == end || *at++ != ')') refuse();
    }
    tasks.insert(tasks.end(), static_cast<size_t>(nodes), count);
    if (at != end && *at++ != ',') refuse();
  }
  return tasks;
}

int port_of(int job, int step) {
  const uint32_t mixed = (static_cast<uint32_t>(job) * 2'654'435'761U) ^ (static_cast<uint32_t>(step) * 40'503U);
  return kFirstPort + static_cast<int>(mixed % kPorts);
}

}  // namespace axonn::slurm
