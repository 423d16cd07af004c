#include "train/report/run_starts.hpp"

#include <sstream>

#include <nlohmann/json.hpp>

#include "core/files.hpp"

namespace axonn {

void record_start(const std::filesystem::path& directory, int64_t step, int64_t ranks,
                  const std::string& configuration) {
  const std::filesystem::path path = directory / "starts.jsonl", beside = directory / "starts.jsonl.partial";
  std::string lines;
  if (step > 0 && std::filesystem::exists(path)) {
    std::istringstream before(disk::read_text(path));
    for (std::string line; std::getline(before, line);) {
      const auto start = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (start.is_object() && start.value("step", step) < step) lines += line + "\n";
    }
  }
  const nlohmann::ordered_json start = {
      {"step", step}, {"ranks", ranks}, {"configuration", nlohmann::ordered_json::parse(configuration)}};
  disk::write_synced(beside, lines + start.dump() + "\n");
  std::filesystem::rename(beside, path);
}

}  // namespace axonn
