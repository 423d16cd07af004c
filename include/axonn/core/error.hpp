#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace axonn {

// Error classes by cause. what() is "[where] sentence"; programs print only sentence() to their
// users.
class Error : public std::runtime_error {
 public:
  Error(std::string where, std::string sentence);
  const std::string& where() const noexcept { return where_; }        // "module.function"; InternalError: "file:line"
  const std::string& sentence() const noexcept { return sentence_; }  // "got X, need Y"

 private:
  std::string where_;
  std::string sentence_;
};

// The caller gave something that cannot work: a wrong grid, a missing file, a wrong layout.
class UserError : public Error {
 public:
  using Error::Error;
};

// The same, of one rank of a job: nobody else can tell it.
class OneRankError : public UserError {
 public:
  using UserError::UserError;
};

// A bug in axonn.
class InternalError : public Error {
 public:
  using Error::Error;
};

// A library or system call failed. The sentence contains the error text of that call.
class BackendError : public Error {
 public:
  using Error::Error;
};

namespace detail {

template <typename... Parts>
std::string concatenate(const Parts&... parts) {
  std::ostringstream out;
  out.precision(10);
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace detail
}  // namespace axonn

// AXONN_CHECK(heads % x == 0, "model.gpt", "heads must divide by x, got ", heads, " and ", x);
#define AXONN_CHECK(condition, where, ...)                                        \
  do {                                                                            \
    if (!(condition)) [[unlikely]]                                                \
      throw ::axonn::UserError(where, ::axonn::detail::concatenate(__VA_ARGS__)); \
  } while (false)

// For bugs in axonn. Also active in release builds.
#define AXONN_ASSERT(condition, ...)                                                                               \
  do {                                                                                                             \
    if (!(condition)) [[unlikely]]                                                                                 \
      throw ::axonn::InternalError(::axonn::detail::concatenate(__FILE__, ":", __LINE__),                          \
                                   ::axonn::detail::concatenate("broken promise '" #condition "' ", __VA_ARGS__)); \
  } while (false)
