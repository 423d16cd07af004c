#include "train/report/run_environment.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <caffe2/core/common.h>
#include <nlohmann/json.hpp>

#include "axonn/core/host_name.hpp"
#include "axonn/core/utf8.hpp"
#include "axonn/core/version.hpp"
#include "axonn/overlap/execute/rank_tuning.hpp"
#include "core/utc_time.hpp"
#include "train/report/device_memory.hpp"

namespace axonn {
namespace {

using Json = nlohmann::ordered_json;

// [{"name": "n0417", "ranks": 8}, ...], by their first ranks.
Json hosts_of(Communicator& everyone) {
  constexpr int64_t kLongest = 65;  // bytes of a name on Linux, with its NUL
  const std::string name = host_name();
  const at::Tensor mine = at::zeros({kLongest}, at::kByte), all = at::empty({kLongest * everyone.size()}, at::kByte);
  std::copy_n(name.begin(), std::min(name.size(), size_t{kLongest - 1}), mine.mutable_data_ptr<uint8_t>());
  everyone.all_gather(mine, all).wait();
  std::vector<std::string> names;
  std::map<std::string, int64_t> ranks;
  for (int64_t rank = 0; rank < everyone.size(); ++rank) {
    const std::string its = reinterpret_cast<const char*>(all.const_data_ptr<uint8_t>() + rank * kLongest);
    if (ranks[its]++ == 0) names.push_back(its);
  }
  Json hosts = Json::array();
  for (const std::string& each : names) hosts.push_back(Json{{"name", each}, {"ranks", ranks[each]}});
  return hosts;
}

// The arguments of this process.
Json command_line() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  Json words = Json::array();
  for (std::string word; std::getline(in, word, '\0');) words.push_back(printable(word));
  return words;
}

Json memory_json(const MemoryPrediction& memory) {
  return {{"weights", memory.weight_bytes},
          {"gradients", memory.gradient_bytes},
          {"optimizer", memory.optimizer_bytes},
          {"gathered", memory.gathered_bytes},
          {"activations", memory.activation_bytes},
          {"logits", memory.logits_bytes},
          {"block", memory.block_bytes},
          {"total", memory.total_bytes()}};
}

}  // namespace

std::string environment_json(const TrainedNetwork& network, const RunIdentity& identity, Communicator& everyone) {
  const Environment& job = network.environment;
  const c10::Device device = network.context.options().device;
  Json all = {{"time", utc_now()},
              {"axonn", version()},
              {"libtorch", caffe2::GetBuildOptions().at("TORCH_VERSION")},
              {"compiler", compiler()},
              {"transport", job.transport()}};
  if (!job.library().empty()) all["library"] = job.library();
  all["ranks"] = job.ranks();
  all["grid"] = network.context.shape().to_string();
  all["device"] = device.is_cuda() ? cuda_name(device) : "cpu";
  all["machine"] = machine_name(job.local_ranks());
  all["threads"] = at::get_num_threads();
  all["hosts"] = hosts_of(everyone);
  all["command"] = command_line();
  all["predicted_memory"] = memory_json(identity.memory);
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace axonn
