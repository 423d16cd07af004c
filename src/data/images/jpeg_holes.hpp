#pragma once

#include <cstdint>
#include <string_view>

namespace axonn {

// The longest run of zero bytes in the compressed pixels of a JPEG file. A lost block of a disk,
// 512 bytes or more, is such a run, and libjpeg decodes it without a word. A large plain area can
// be one, too.
int64_t longest_zero_run(std::string_view jpeg);

}  // namespace axonn
