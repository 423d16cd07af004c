#include "axonn/terms/kernel_choice.hpp"

namespace axonn {

KernelChoice KernelChoice::all() { return switches_of<KernelChoice>(~0u); }

}  // namespace axonn
