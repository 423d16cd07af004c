// encode_texts TOKENIZER: the ids of each line of the input, a text in JSON, as a line of JSON.
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
    std::cout << nlohmann::json(tokenizer.encode(text)).dump() << '\n';
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
