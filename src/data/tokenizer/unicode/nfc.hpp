#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace axonn {

// `text`, which is valid UTF-8, in Unicode's Normalization Form C, as Hugging Face's tokenizers
// make it (their tables are older than Unicode 11); nullopt when it is in this form already.
std::optional<std::string> nfc(std::string_view text);

}  // namespace axonn
