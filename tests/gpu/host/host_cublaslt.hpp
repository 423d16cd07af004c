// The part of cuBLASLt on the host that a test sees and sets.
#pragma once

#include <optional>

#include <cublasLt.h>

namespace host_cublaslt {

// A product with this epilogue is offered no algorithm.
inline std::optional<cublasLtEpilogue_t> missing;
// So many algorithms are offered for a product. The first one computes nothing when it is run, if
// there are others.
inline int offered = 1;
inline int asked = 0;     // times that algorithms were asked for
inline int products = 0;  // that were computed

}  // namespace host_cublaslt
