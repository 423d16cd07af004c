#include "train/report/run_status.hpp"

#include <exception>

#include <nlohmann/json.hpp>

#include "axonn/core/log.hpp"
#include "core/files.hpp"
#include "core/utc_time.hpp"

namespace axonn {

void RunStatus::running(int64_t step) {
  if (std::chrono::steady_clock::now() >= next_) write("running", step, "");
}

void RunStatus::failed(int64_t step, const std::string& reason) noexcept {
  try {
    write("failed", step, reason);
  } catch (const std::exception& error) {
    log::warn("status.json does not say that the run failed: ", error.what());
  }
}

void RunStatus::write(const char* state, int64_t step, const std::string& reason) {
  nlohmann::ordered_json status = {{"state", state}, {"step", step}, {"time", utc_now()}};
  if (!reason.empty()) status["reason"] = reason;
  const auto replaced = nlohmann::json::error_handler_t::replace;  // a reason can hold any bytes
  disk::replace_synced(directory_ / "status.json", status.dump(-1, ' ', false, replaced) + "\n");
  next_ = std::chrono::steady_clock::now() + kSeconds;
}

}  // namespace axonn
