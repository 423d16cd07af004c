#include "train/report/run_starts.hpp"

#include <sstream>

#include <nlohmann/json.hpp>

#include "core/files.hpp"

namespace axonn {

void record_start(const std::filesystem::path& directory, const RunStart& started) {
  const std::filesystem::path path = directory / "starts.jsonl";
  std::string lines;
  if (started.step > 0 && std::filesystem::exists(path)) {
    std::istringstream before(disk::read_text(path));
    for (std::string line; std::getline(before, line);) {
      const auto start = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (start.is_object() && start.value("step", started.step) < started.step) lines += line + "\n";
    }
  }
  nlohmann::ordered_json start = {{"step", started.step}, {"start", started.start}};
  if (!started.from.empty()) start["from"] = started.from;
  start["ranks"] = started.ranks;
  start["configuration"] = nlohmann::ordered_json::parse(started.configuration);
  start["choices"] = started.choices;
  const auto environment = nlohmann::ordered_json::parse(started.environment);
  start["environment"] = environment;
  disk::replace_synced(directory / "config.toml", started.config_toml);
  disk::replace_synced(directory / "environment.json", environment.dump(2) + "\n");
  disk::replace_synced(path, lines + start.dump() + "\n");
}

}  // namespace axonn
