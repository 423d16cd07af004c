#pragma once

namespace axonn {

// UserError if this build has no code for the kind of CUDA device `device`. Code for sm_80 also
// runs on newer kinds, because it comes with PTX, which the driver compiles.
void check_gpu_code(int device);

}  // namespace axonn
