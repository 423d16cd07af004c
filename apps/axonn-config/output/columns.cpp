#include "output/columns.hpp"

#include <algorithm>
#include <cstdio>

void print_columns(std::ostream& out, const std::vector<Column>& columns) {
  const size_t rows = columns.front().cells.size();
  for (size_t row = 0; row <= rows; ++row) {
    std::string line;
    for (const Column& column : columns) {
      size_t width = column.title.size();
      for (const std::string& cell : column.cells) width = std::max(width, cell.size());
      const std::string& text = row == 0 ? column.title : column.cells[row - 1];
      const std::string pad(width - text.size(), ' ');
      line += "  " + (column.left ? text + pad : pad + text);
    }
    out << line.substr(0, line.find_last_not_of(' ') + 1) << "\n";
  }
}

std::string fixed_text(double value, int digits) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return buffer;
}
