#pragma once

#include <cstdint>
#include <span>

#include <axonn/tasks/text/evaluation.hpp>

// The results of `gpt eval` on standard output: one JSON object, or a table.

struct TextResult {
  axonn::TextScore score;
  int64_t bytes = 0;  // length of the predicted tokens' text
  int64_t windows = 0, sequence = 0, stride = 0;
};
void print_result(const TextResult& result, bool json);

void print_result(const axonn::ChoiceScore& score, std::span<const axonn::Question> questions, bool json);
