#include "train/report/prometheus_file.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <exception>
#include <utility>

#include "axonn/core/log.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/utf8.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

// "seconds.step" -> "axonn_seconds_step".
std::string name_of(const std::string& key) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  std::string name = "axonn_";
  for (const char letter : key) name += kLetters.find(letter) == std::string_view::npos ? '_' : letter;
  return name;
}

std::string label_of(const std::string& text) {
  std::string label;
  for (const char letter : shown_name(text))
    label += letter == '"' || letter == '\\' ? std::string{'\\', letter} : std::string(1, letter);
  return label;
}

std::string value_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

}  // namespace

std::string prometheus_text(const NamedNumbers& numbers, const std::string& run, bool running) {
  std::string text;
  const auto add = [&, label = label_of(run)](const std::string& key, double value) {
    const std::string name = name_of(key);
    text += "# TYPE " + name + " gauge\n" + name + "{run=\"" + label + "\"} " + value_text(value) + "\n";
  };
  add("running", running ? 1 : 0);
  for (const auto& [key, value] : numbers) add(key, value);
  return text;
}

PrometheusFile::PrometheusFile(std::filesystem::path path, std::string run)
    : path_(std::move(path)), run_(std::move(run)) {
  write(/*running=*/true);
}

void PrometheusFile::write(bool running) {
  next_ = Clock::now() + kBetweenWrites;
  disk::replace_synced(path_, prometheus_text(metrics_, run_, running));
}

void PrometheusFile::try_to_write(bool running) noexcept {
  try {
    write(running);
  } catch (const std::exception& error) {
    if (!std::exchange(failed_, true))
      log::warn("--metrics-file is not up to date any more, and the run goes on without it: ", sentence_of(error));
  }
}

void PrometheusFile::update(NamedNumbers metrics) {
  metrics_ = std::move(metrics);
  if (Clock::now() >= next_) try_to_write(/*running=*/true);
}

void PrometheusFile::end() noexcept { try_to_write(/*running=*/false); }

}  // namespace axonn
