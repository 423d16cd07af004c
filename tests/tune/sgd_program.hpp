#pragma once

#include <cstdint>
#include <string>

#include "axonn/coconet/text/program_text.hpp"

// For the tuner's tests: a small program and a hash.
namespace axonn::tune {

inline constexpr const char* kSgd = R"(program sgd
size N
tensor g fp32 [N] local
tensor w fp32 [N] replicated
scalar lr = 0.1
sum = all_reduce(+, g)
w1 = update(w, w - lr * sum)
return w1
)";

inline coconet::Program sgd() { return coconet::parse_program(kSgd, "sgd"); }

inline uint64_t fnv(const std::string& text, uint64_t seed = 0) {  // FNV-1a
  uint64_t hash = 14695981039346656037u + seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

}  // namespace axonn::tune
