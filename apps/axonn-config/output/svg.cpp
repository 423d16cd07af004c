#include "output/svg.hpp"

#include <cerrno>
#include <fstream>

#include <axonn/core/error.hpp>
#include <axonn/core/sentence.hpp>

#include "output/columns.hpp"

namespace {

std::string attribute(const char* name, double value) {
  return std::string(" ") + name + "=\"" + fixed_text(value, 1) + "\"";
}

}  // namespace

Svg::Svg(int width, int height) {
  out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
       << "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
}

void Svg::rectangle(double x, double y, double width, double height, const std::string& color) {
  out_ << "<rect" << attribute("x", x) << attribute("y", y) << attribute("width", width) << attribute("height", height)
       << " fill=\"" << color << "\"/>\n";
}

void Svg::line(double x1, double y1, double x2, double y2, const std::string& color, double width) {
  out_ << "<line" << attribute("x1", x1) << attribute("y1", y1) << attribute("x2", x2) << attribute("y2", y2)
       << " stroke=\"" << color << "\"" << attribute("stroke-width", width) << "/>\n";
}

void Svg::circle(double x, double y, double radius, const std::string& color) {
  out_ << "<circle" << attribute("cx", x) << attribute("cy", y) << attribute("r", radius) << " fill=\"" << color
       << "\"/>\n";
}

void Svg::text(double x, double y, const std::string& words, const std::string& anchor) {
  std::string safe;
  for (const char c : words) safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '"' ? "&quot;" : std::string(1, c);
  out_ << "<text" << attribute("x", x) << attribute("y", y) << " text-anchor=\"" << anchor << "\">" << safe
       << "</text>\n";
}

void Svg::write(const std::string& file) {
  out_ << "</svg>\n";
  std::ofstream out(file);
  out << out_.str();
  out.close();
  AXONN_CHECK(out, "axonn_config.plot", "cannot write ", file, ": ", axonn::reason_and_cure(errno));
}
