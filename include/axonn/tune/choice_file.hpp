#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "axonn/coconet/plan/run_settings.hpp"
#include "axonn/coconet/transform/transformation.hpp"

namespace axonn::tune {

// The case that a tuner's choice is for.
struct ChoiceKey {
  coconet::Program program;
  coconet::SizeValues sizes;
  int ranks = 1;
  std::string backend;  // "threads"
  std::string machine;  // on other machines, other schedules are the fastest
};

struct Choice {
  std::vector<coconet::Transformation> log;
  double seconds = 0;
  coconet::RunSettings settings = {};
};

// The tuner's choices on disk: a text file per program, sizes, ranks and backend, named after the
// program and a hash of them. Only one process writes it.
class ChoiceFiles {
 public:
  explicit ChoiceFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path path_of(const ChoiceKey& key) const;
  // None if there is no file; also, with one line in the log, if it is of another machine or
  // version, or corrupt: the next save() renews it.
  std::optional<Choice> find(const ChoiceKey& key) const;
  // UserError if the folder cannot be written.
  void save(const ChoiceKey& key, const Choice& choice) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace axonn::tune
