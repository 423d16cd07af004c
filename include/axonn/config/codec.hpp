#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/core/names.hpp"

namespace axonn {

// How a type is written as text, in files and on the command line. Enums with Names have a Codec.
// Specialise it for your own types:
//   // UserError with a full sentence; `what` is the flag or the key
//   static T parse(std::string_view text, std::string_view what);
//   static std::string print(const T& value);  // as parse() takes it
//   static std::string type();                 // in the help: "TEXT", or the values "bf16|fp16"
template <typename T>
struct Codec;

template <typename T>
concept HasCodec = requires(const T& value) { Codec<T>::print(value); };

template <HasNames Enum>
struct Codec<Enum> {
  static Enum parse(std::string_view text, std::string_view what) { return parse_name<Enum>(text, what); }
  static std::string print(Enum value) { return std::string(to_string(value)); }
  static std::string type() { return all_names<Enum>("|"); }
};

// "auto" is nullopt: the program chooses.
template <HasCodec T>
struct Codec<std::optional<T>> {
  static std::optional<T> parse(std::string_view text, std::string_view what) {
    return text == "auto" ? std::nullopt : std::optional<T>(Codec<T>::parse(text, what));
  }
  static std::string print(const std::optional<T>& value) { return value ? Codec<T>::print(*value) : "auto"; }
  static std::string type() { return Codec<T>::type() == "TEXT" ? "TEXT" : "auto|" + Codec<T>::type(); }
};

// A bound value of any type with a Codec.
struct TextValue {
  std::function<std::string()> print;
  std::function<void(std::string_view text, std::string_view what, bool store)> parse;  // store false: only checks
  std::string type;
};

template <HasCodec T>
TextValue bind_text(T& value) {
  return {.print = [&value] { return Codec<T>::print(value); },
          .parse =
              [&value](std::string_view text, std::string_view what, bool store) {
                T parsed = Codec<T>::parse(text, what);
                if (store) value = std::move(parsed);
              },
          .type = Codec<T>::type()};
}

// A bound list of such values.
struct TextValues {
  std::function<std::vector<std::string>()> print;
  std::function<void(const std::vector<std::string>& texts, std::string_view what, bool store)> parse;
  std::string type;
};

template <HasCodec T>
TextValues bind_texts(std::vector<T>& values) {
  return {.print =
              [&values] {
                std::vector<std::string> texts;
                for (const T& value : values) texts.push_back(Codec<T>::print(value));
                return texts;
              },
          .parse =
              [&values](const std::vector<std::string>& texts, std::string_view what, bool store) {
                std::vector<T> parsed;
                for (const std::string& text : texts) parsed.push_back(Codec<T>::parse(text, what));
                if (store) values = std::move(parsed);
              },
          .type = Codec<T>::type()};
}

}  // namespace axonn
