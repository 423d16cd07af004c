// Two layouts side by side.
#include <cmath>
#include <iostream>

#include <axonn/core/text.hpp>

#include "explain/explained_job.hpp"
#include "output/columns.hpp"

void print_comparison(const axonn::PlannedLayout& one, const axonn::PlannedLayout& other) {
  std::vector<Column> columns = {{"", true}, {one.grid.to_string()}, {other.grid.to_string()}, {"difference"}};
  const auto row = [&](const char* name, double a, double b, const auto& text) {
    const std::string cells[] = {name, text(a), text(b), (b < a ? "-" : "+") + text(std::abs(b - a))};
    for (size_t i = 0; i < columns.size(); ++i) columns[i].cells.push_back(cells[i]);
  };
  const auto seconds = [&](const char* name, double a, double b) { row(name, a, b, seconds_text); };
  const axonn::StepTime &mine = one.time, &its = other.time;
  seconds("forward", mine.forward, its.forward);
  seconds("backward", mine.backward, its.backward);
  seconds("optimizer", mine.optimizer, its.optimizer);
  seconds("longer by all-reduces", mine.exposed_all_reduce, its.exposed_all_reduce);
  seconds("longer by gathers and scatters", mine.exposed_gather_scatter, its.exposed_gather_scatter);
  seconds("longer by data", mine.exposed_data, its.exposed_data);
  if (mine.exposed_context + its.exposed_context > 0)
    seconds("longer by keys and values", mine.exposed_context, its.exposed_context);
  seconds("a step", mine.seconds(), its.seconds());
  const auto bytes = [&](const char* name, int64_t a, int64_t b) {
    row(name, static_cast<double>(a), static_cast<double>(b), axonn::bytes_text);
  };
  bytes("weights, gradients, optimizer",
        one.memory.weight_bytes + one.memory.gradient_bytes + one.memory.optimizer_bytes,
        other.memory.weight_bytes + other.memory.gradient_bytes + other.memory.optimizer_bytes);
  bytes("gathered and cached", one.memory.gathered_bytes + one.cache_bytes,
        other.memory.gathered_bytes + other.cache_bytes);
  bytes("activations", one.memory.activation_bytes, other.memory.activation_bytes);
  bytes("a GPU's memory", one.memory_bytes(), other.memory_bytes());
  print_columns(std::cout, columns);
  std::cout << "\npasses: " << micro_text(one) << " and " << micro_text(other) << "\n";
}
