#include "axonn/terms/overlap_switches.hpp"

namespace axonn {

OverlapSwitches OverlapSwitches::none() { return switches_of<OverlapSwitches>(0); }

}  // namespace axonn
