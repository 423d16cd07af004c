#include "perfmodel/p2_tables.hpp"

#include <fstream>
#include <sstream>
#include <tuple>

namespace axonn::testing_support {
namespace {

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> found(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      found.emplace_back();
    else if (c != '\r')
      found.back() += c;
  }
  return found;
}

std::vector<int> numbers(const std::string& text) {
  std::istringstream in(text);
  std::vector<int> found;
  for (int number = 0; in >> number;) found.push_back(number);
  return found;
}

std::optional<double> number(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(std::stod(text));
}

ParallelismMatrix matrix(std::string text) {
  for (char& c : text) c = c == ';' ? ',' : c == ' ' ? 'x' : c;
  return parse_parallelism_matrix(text);
}

}  // namespace

std::vector<P2Row> p2_appendix() {
  std::ifstream file(AXONN_P2_TABLES);
  std::string line;
  std::getline(file, line);
  std::vector<P2Row> rows;
  while (std::getline(file, line)) {
    const auto f = fields(line);
    if (f.at(0) != "AppendixA") continue;
    const auto total = number(f.at(12));
    rows.push_back({.source = f[0],
                    .gpu = f[3],
                    .flag = f.at(22),
                    .levels = {std::stoi(f[4]), std::stoi(f[5])},
                    .axes = numbers(f[6]),
                    .reduce_axes = numbers(f[7]),
                    .matrix = matrix(f.at(15)),
                    .total_programs = total ? std::optional(static_cast<int>(*total)) : std::nullopt,
                    .all_reduce_ring = number(f.at(16)),
                    .all_reduce_tree = number(f.at(17)),
                    .optimal_ring = number(f.at(18)),
                    .optimal_tree = number(f.at(19))});
  }
  return rows;
}

std::vector<std::vector<P2Row>> p2_groups() {
  const auto key = [](const P2Row& row) { return std::tie(row.gpu, row.levels, row.axes, row.reduce_axes); };
  std::vector<std::vector<P2Row>> groups;
  for (const P2Row& row : p2_appendix()) {
    if (groups.empty() || key(groups.back().front()) != key(row)) groups.emplace_back();
    groups.back().push_back(row);
  }
  return groups;
}

std::vector<ParallelismMatrix> parallelism_matrices(std::span<const int> levels, std::span<const int> axes) {
  std::vector<ParallelismMatrix> all;
  visit_parallelism_matrices(levels, axes, [&](const ParallelismMatrix& matrix) { all.push_back(matrix); });
  return all;
}

}  // namespace axonn::testing_support
