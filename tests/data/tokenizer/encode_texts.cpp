// encode_texts TOKENIZER: per line of the input, a text in JSON, a line of JSON with its ids, and
// the text that these become.
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "axonn/data/tokenizer/tokenizer.hpp"

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  const auto tokenizer = axonn::Tokenizer::from_files(argv[1]);
  for (std::string line; std::getline(std::cin, line);) {
    const auto text = nlohmann::json::parse(line).get<std::string>();
    const auto ids = tokenizer.encode(text);
    std::cout << nlohmann::json::array({ids, tokenizer.decode(ids)}).dump() << '\n';
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
