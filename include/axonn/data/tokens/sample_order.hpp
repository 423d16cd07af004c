#pragma once

#include <cstdint>

#include "axonn/core/names.hpp"

namespace axonn {

// The way in which training samples follow each other.
enum class SampleOrder : uint8_t {
  epochs,  // every window once, then all of them again in another order
  drawn,   // any place of the text with the same probability each time, as axonn did before 0.4
};

template <>
struct Names<SampleOrder> {
  static constexpr Named<SampleOrder> all[] = {{"epochs", SampleOrder::epochs}, {"drawn", SampleOrder::drawn}};
};

}  // namespace axonn
