#pragma once

#include <optional>

#include <axonn/train/checkpoint.hpp>

#include "gpt_options.hpp"

// A run that goes on keeps its network, data and order of samples. What neither a flag nor a file sets is as it was in the checkpoint;
// UserError for what is set and must not change. `--out` becomes the run's own directory.
void take_over(GptOptions& options, axonn::OptionTable& table, const axonn::CheckpointReader& reader);

// UserError when --out holds a run already, unless it is the one that goes on.
void check_out(const GptOptions& options, const std::optional<axonn::CheckpointReader>& resumed);
