#pragma once

#include "axonn/core/error.hpp"

namespace axonn {

// Files of a checkpoint are missing, have other sizes, or have other checksums than its manifest
// says. The sentence names the file and, where there is one, the newest older checkpoint that is
// whole.
class BrokenCheckpoint : public UserError {
 public:
  using UserError::UserError;
};

}  // namespace axonn
