#pragma once

#include <cstdint>
#include <filesystem>

#include <nlohmann/json_fwd.hpp>

// Samples that a run drew: images as PNG (samples/step-000500.png) and texts (.txt). At most `most`
// of each: the last, and others at equal distances before it. Large ones are left out, or cut.
// [{"step": 500, "image": BASE64}, {"step": 500, "text": ...}, ...]
nlohmann::ordered_json samples_of(const std::filesystem::path& folder, int64_t most);
