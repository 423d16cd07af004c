#pragma once

#include <map>
#include <random>
#include <string>

#include "axonn/coconet/language/dataflow.hpp"

namespace axonn::coconet {

// Expressions and programs from a seed; the same ones on every machine.
class RandomPrograms {
 public:
  explicit RandomPrograms(uint64_t seed) : random_(seed) {}

  // Any tree of operations with any settings: most have no type.
  Expression expression(int depth);
  // A program that keeps all rules, often with sections.
  Program program();

  // At least 0 and less than `end`.
  int number(int end) { return static_cast<int>(random_() % static_cast<uint64_t>(end)); }

 private:
  Expression leaf();
  Attributes attributes();
  double constant();
  Declaration declaration(int index);
  Expression statement(const std::map<std::string, TensorType>& values);
  void add_statement(ProgramParts& parts, std::map<std::string, TensorType>& values);
  void add_sections(ProgramParts& parts);

  std::mt19937_64 random_;
};

}  // namespace axonn::coconet
