#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "axonn/data/tokenizer/tokenizer.hpp"

namespace axonn {

// The beginning of a text with several endings, of which one is right.
struct Question {
  struct Ending {
    std::vector<int32_t> tokens;
    // The length of its text, without the space before it; 0: the file has tokens only.
    int64_t characters = 0, bytes = 0;
  };

  std::vector<int32_t> context;
  std::vector<Ending> endings;
  size_t label = 0;  // the right ending, from 0
};

// Reads a file of questions:
//   lines of JSON, such as {"ctx": "One and", "endings": ["one is two.", "one is three."],
//   "label": 0}, with "context" in the place of "ctx" if that is missing; other keys are ignored.
//   The tokens are those of the context, and of each ending with a space before it. They need
//   `tokenizer`.
//   llm.c's file of HellaSwag, known by its first number. It has tokens.
// At least one question, each with a context and at least two endings of at least one token.
// UserError with the file and the line or byte for anything else, and for text without a tokenizer.
// Memory follows the bytes that are there, not the numbers in them. No torch, no communication.
std::vector<Question> read_questions(const std::filesystem::path& file, const Tokenizer* tokenizer);

}  // namespace axonn
