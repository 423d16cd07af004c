#pragma once

#include <string>
#include <vector>

#include "axonn/data/text/questions.hpp"

namespace axonn::test {

inline void append_number(std::string& bytes, size_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
}

// The tokens of questions as llm.c's file of HellaSwag has them.
inline std::string llmc_file(const std::vector<Question>& questions) {
  std::string file;
  for (const size_t value : {size_t{20240522}, size_t{1}, questions.size()}) append_number(file, value, 4);
  file.resize(1024);
  for (size_t i = 0; i < questions.size(); ++i) {
    std::string question;
    const auto append = [&](const std::vector<int32_t>& tokens) {
      append_number(question, tokens.size(), 2);
      for (const int32_t token : tokens) append_number(question, static_cast<size_t>(token), 2);
    };
    for (const size_t value : {i, questions[i].label, questions[i].endings.size()}) append_number(question, value, 2);
    append(questions[i].context);
    for (const Question::Ending& ending : questions[i].endings) append(ending.tokens);
    append_number(file, 65535, 2);
    append_number(file, question.size() + 4, 2);
    file += question;
  }
  return file;
}

}  // namespace axonn::test
