#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "axonn/core/json/json_numbers.hpp"

// TensorBoard's events as bytes: messages of protocol buffers (event.proto, summary.proto,
// tensor.proto), of which few fields are needed.
namespace axonn {

struct EventMoment {
  double wall_time = 0;  // seconds since 1970
  int64_t step = 0;
};

// The first event of a file.
std::string version_event(const EventMoment& moment);
// A start of the run that goes on with this step: earlier events of this step and later ones do not
// count any more.
std::string start_event(const EventMoment& moment);

// Curves; each name is a tag. Numbers become fp32.
std::string scalars_event(const EventMoment& moment, const NamedNumbers& numbers);
// Markdown, in UTF-8.
std::string text_event(const EventMoment& moment, std::string_view tag, std::string_view markdown);
// `png`: a whole file of at least 24 bytes, whose header says the size.
std::string image_event(const EventMoment& moment, std::string_view tag, std::string_view png);

}  // namespace axonn
