#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <system_error>

namespace axonn {

// An exception in a program's words: an Error's sentence; for a path that the system refuses, as
// std::filesystem throws it, the path, the system's reason and a cure; else what(). `verbose` adds
// the place in the code, or the library's own words.
std::string sentence_of(const std::exception& error, bool verbose = false);

// The system's reason why a path cannot be used, and what to do: "Not a directory; a part ...".
std::string reason_and_cure(std::error_code reason);
std::string reason_and_cure(int error_number);  // an errno

// The same for a file that could not be opened to read, found by trying again.
std::string why_not_read(const std::string& file);

}  // namespace axonn
