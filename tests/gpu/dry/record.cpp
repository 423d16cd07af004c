#include "record.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <mutex>

namespace dry {
namespace {

using Clock = std::chrono::steady_clock;

// Lives until the process ends, because other libraries call the GPU from their destructors.
struct Record {
  Record() {
    const char* path = std::getenv("DRY_GPU_RECORD");
    if (path == nullptr) return;
    const char* rank = std::getenv("RANK");
    file = std::fopen((rank != nullptr ? std::string(path) + "." + rank : std::string(path)).c_str(), "w");
    if (file == nullptr) {
      std::perror(path);
      std::abort();
    }
    std::setvbuf(file, nullptr, _IOFBF, 1 << 20);
  }
  std::mutex mutex;
  std::FILE* file = nullptr;
  const Clock::time_point start = Clock::now();
};

Record& record() {
  static Record* const the = new Record;
  return *the;
}

std::string demangled(const char* symbol) {
  int status = 0;
  char* const text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string name = status == 0 ? text : symbol;
  std::free(text);
  return name.substr(0, name.find('('));
}

// The layers of LibTorch's dispatcher, which tell nothing.
bool is_dispatch(const std::string& name) {
  for (const char* part : {"wrapper_", "wrap_kernel", "Boxed", "boxed", "KernelFunction", "redispatch"})
    if (name.find(part) != std::string::npos) return true;
  return name.empty();
}

// FUNCTION:N of an environment variable.
class Fault {
 public:
  explicit Fault(const char* variable) {
    const char* const text = std::getenv(variable);
    wanted_ = text != nullptr ? text : "";
    colon_ = wanted_.find(':');
  }
  bool comes(std::string_view function) {
    if (colon_ == std::string::npos || std::string_view(wanted_).substr(0, colon_) != function) return false;
    return ++calls_ == std::atoll(wanted_.c_str() + colon_ + 1);
  }

 private:
  std::string wanted_;
  size_t colon_;
  std::atomic<long long> calls_ = 0;
};

}  // namespace

bool recording() { return record().file != nullptr; }

void write(std::string_view kind, const std::string& fields) {
  if (!recording()) return;
  const double time = std::chrono::duration<double, std::micro>(Clock::now() - record().start).count();
  const std::lock_guard lock(record().mutex);
  std::fprintf(record().file, "%.0f\t%.*s\t%s\n", time, static_cast<int>(kind.size()), kind.data(), fields.c_str());
  if (kind == "end" || kind == "refused") std::fflush(record().file);
}

std::string callers() {
  if (!recording()) return {};
  void* frames[64];
  const int count = backtrace(frames, 64);
  std::string text;
  for (int i = 2, kept = 0; i < count && kept < 16; ++i) {
    Dl_info place{};
    if (dladdr(frames[i], &place) == 0) continue;
    std::string name;
    if (place.dli_sname != nullptr) {
      name = demangled(place.dli_sname);
    } else {
      char offset[64];
      const auto from = static_cast<const char*>(frames[i]) - static_cast<const char*>(place.dli_fbase);
      std::snprintf(offset, sizeof offset, "program+0x%lx", static_cast<unsigned long>(from));
      if (std::string_view(place.dli_fname).find(".so") == std::string_view::npos) name = offset;
    }
    if (is_dispatch(name)) continue;
    text += (kept++ > 0 ? " <- " : "") + name;
  }
  return text;
}

bool fails(std::string_view function) {
  static Fault fault("DRY_GPU_FAIL");
  return fault.comes(function);
}

bool hangs(std::string_view function) {
  static Fault fault("DRY_GPU_HANG");
  return fault.comes(function);
}

double number(const char* variable, double otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atof(text) : otherwise;
}

}  // namespace dry
