#include "train/tensorboard/event_messages.hpp"

#include <bit>

#include "axonn/core/error.hpp"
#include "train/tensorboard/little_endian.hpp"

namespace axonn {
namespace {

// A message of protocol buffers: its fields in the order in which they are added.
class Message {
 public:
  Message& add(uint32_t field, int64_t number) {
    add_key(field, 0);
    add_varint(static_cast<uint64_t>(number));
    return *this;
  }
  Message& add(uint32_t field, double number) {
    add_key(field, 1);
    append_little_endian(bytes_, std::bit_cast<uint64_t>(number));
    return *this;
  }
  Message& add(uint32_t field, std::string_view bytes) {
    add_key(field, 2);
    add_varint(bytes.size());
    bytes_ += bytes;
    return *this;
  }
  Message& add(uint32_t field, const Message& message) { return add(field, std::string_view(message.bytes_)); }
  Message& add(uint32_t field, float number) {
    add_key(field, 5);
    append_little_endian(bytes_, std::bit_cast<uint32_t>(number));
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void add_key(uint32_t field, uint32_t kind) { add_varint(field << 3 | kind); }
  void add_varint(uint64_t number) {
    for (; number >= 0x80; number >>= 7) bytes_ += static_cast<char>(number | 0x80);
    bytes_ += static_cast<char>(number);
  }

  std::string bytes_;
};

// Numbers of the fields, by message.
struct EventField {
  static constexpr uint32_t wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7;
};
struct ValueField {
  static constexpr uint32_t tag = 1, simple_value = 2, image = 4, tensor = 8, metadata = 9;
};
struct ImageField {
  static constexpr uint32_t height = 1, width = 2, colorspace = 3, encoded = 4;
};
constexpr uint32_t kSummaryValue = 1, kSessionStatus = 1;

Message event_at(const EventMoment& moment) {
  return Message().add(EventField::wall_time, moment.wall_time).add(EventField::step, moment.step);
}

std::string event_of(const EventMoment& moment, const Message& summary) {
  return event_at(moment).add(EventField::summary, summary).bytes();
}

// A number of four bytes of a PNG.
int64_t big_endian(std::string_view bytes) {
  int64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<uint8_t>(byte);
  return number;
}

// SummaryMetadata: the plugin that shows the value, which is a tensor.
Message shown_by(std::string_view plugin) {
  constexpr uint32_t kPluginData = 1, kPluginName = 1, kDataClass = 4;
  constexpr int64_t kTensor = 2;
  return Message().add(kPluginData, Message().add(kPluginName, plugin)).add(kDataClass, kTensor);
}

// TensorProto with one text.
Message tensor_of(std::string_view text) {
  constexpr uint32_t kType = 1, kShape = 2, kDim = 2, kSize = 1, kTexts = 8;
  constexpr int64_t kString = 7;
  return Message()
      .add(kType, kString)
      .add(kShape, Message().add(kDim, Message().add(kSize, int64_t{1})))
      .add(kTexts, text);
}

}  // namespace

std::string version_event(const EventMoment& moment) {
  return event_at(moment).add(EventField::file_version, std::string_view("brain.Event:2")).bytes();
}

std::string start_event(const EventMoment& moment) {
  constexpr int64_t kStart = 1;
  return event_at(moment).add(EventField::session_log, Message().add(kSessionStatus, kStart)).bytes();
}

std::string scalars_event(const EventMoment& moment, const NamedNumbers& numbers) {
  Message summary;
  for (const auto& [name, number] : numbers)
    summary.add(kSummaryValue, Message()
                                   .add(ValueField::tag, std::string_view(name))
                                   .add(ValueField::simple_value, static_cast<float>(number)));
  return event_of(moment, summary);
}

std::string text_event(const EventMoment& moment, std::string_view tag, std::string_view markdown) {
  const Message value = Message()
                            .add(ValueField::tag, tag)
                            .add(ValueField::tensor, tensor_of(markdown))
                            .add(ValueField::metadata, shown_by("text"));
  return event_of(moment, Message().add(kSummaryValue, value));
}

std::string image_event(const EventMoment& moment, std::string_view tag, std::string_view png) {
  constexpr size_t kWidthAt = 16, kHeightAt = 20;
  constexpr int64_t kRgb = 3;
  AXONN_ASSERT(png.size() >= kHeightAt + 4, "a PNG of ", png.size(), " bytes");
  const Message image = Message()
                            .add(ImageField::height, big_endian(png.substr(kHeightAt, 4)))
                            .add(ImageField::width, big_endian(png.substr(kWidthAt, 4)))
                            .add(ImageField::colorspace, kRgb)
                            .add(ImageField::encoded, png);
  const Message value = Message().add(ValueField::tag, tag).add(ValueField::image, image);
  return event_of(moment, Message().add(kSummaryValue, value));
}

}  // namespace axonn
