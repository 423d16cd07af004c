#pragma once

#include <ostream>
#include <string>
#include <vector>

// A column of a printed table: to the right, or to the left for words.
struct Column {
  std::string title;
  bool left = false;
  std::vector<std::string> cells;
};

void print_columns(std::ostream& out, const std::vector<Column>& columns);

std::string fixed_text(double value, int digits);  // 1.2345 -> "1.23"
