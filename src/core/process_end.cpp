#include "axonn/core/process_end.hpp"

#include <cstdio>
#include <cstdlib>

namespace axonn {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // leaks are looked for at the exit
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

// Profilers write their files in a handler of the exit. Nsight Systems comes by the second one.
bool watched() { return std::getenv("LD_PRELOAD") != nullptr || std::getenv("CUDA_INJECTION64_PATH") != nullptr; }

}  // namespace

void end_process(int status) {
  if (kSanitized || watched()) std::exit(status);
  std::fflush(nullptr);  // the streams of C++ have no buffers of their own
  std::_Exit(status);
}

}  // namespace axonn
