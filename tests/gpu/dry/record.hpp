// A program's requests to the GPU, one event per line: microseconds since the start, kind, fields
// (dry_record.py reads it). Written to the file $DRY_GPU_RECORD, with ".RANK" behind it where RANK
// is set.
#pragma once

#include <string>
#include <string_view>

namespace dry {

bool recording();
// Fields are separated by tabs.
void write(std::string_view kind, const std::string& fields);

// The functions above the caller, which waits: "a <- b <- c". A function of a program is
// "program+0x1234", since only its symbol table names it.
std::string callers();

// Whether this call of `function` is the one that $DRY_GPU_FAIL=FUNCTION:N names, counted from 1.
bool fails(std::string_view function);
// The same of $DRY_GPU_HANG: what it starts on the device does not end.
bool hangs(std::string_view function);

// An environment variable as a number; `otherwise` when it is not set.
double number(const char* variable, double otherwise);

template <typename... Fields>
std::string join(const Fields&... fields) {
  std::string text;
  const auto add = [&](const auto& field) {
    if (!text.empty()) text += '\t';
    if constexpr (std::is_convertible_v<decltype(field), std::string_view>)
      text += std::string_view(field);
    else
      text += std::to_string(field);
  };
  (add(fields), ...);
  return text;
}

}  // namespace dry

#define DRY_EXPORT extern "C" __attribute__((visibility("default")))
