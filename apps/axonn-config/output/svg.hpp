#pragma once

#include <sstream>
#include <string>

// An image, written element by element. Coordinates are pixels from the upper left corner.
class Svg {
 public:
  Svg(int width, int height);
  void rectangle(double x, double y, double width, double height, const std::string& color);
  void line(double x1, double y1, double x2, double y2, const std::string& color, double width = 1.5);
  void circle(double x, double y, double radius, const std::string& color);
  void text(double x, double y, const std::string& words, const std::string& anchor = "start");
  void write(const std::string& file);  // UserError when it cannot be written

 private:
  std::ostringstream out_;
};
