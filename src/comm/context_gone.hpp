#pragma once

namespace axonn {

// The words of a UserError about anything that is used after its Context has been destroyed.
inline constexpr const char* kContextGone =
    "the Context with which this was made has gone; keep it as long as its networks, parameters and steps, such as by "
    "returning it with them";

}  // namespace axonn
