#pragma once

#include <cstdint>
#include <string_view>

namespace axonn {

// Of weights and activations. With bf16 and fp16, gradients, master weights and optimizer state are fp32, as in the trainer.
enum class Precision : uint8_t { bf16, fp16, fp32, fp64 };

std::string_view to_string(Precision precision);   // "bf16"
Precision parse_precision(std::string_view name);  // UserError with the nearest name
int64_t element_bytes(Precision precision);        // of weights, activations and their messages
int64_t state_bytes(Precision precision);          // of gradients and their messages, master weights, moments

}  // namespace axonn
