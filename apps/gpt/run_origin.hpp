#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include <axonn/checkpoint/checkpoint.hpp>
#include <axonn/data/tokenizer/tokenizer.hpp>

#include "gpt_options.hpp"

// The tokenizer that a checkpoint keeps if the run has none.
inline constexpr std::string_view kNoTokenizer = "null";

// The folder `origin` of a run: the files of its tokenizer, and those that lay beside the weights
// that it began with, byte for byte. An export writes them again.

// The tokenizer that a checkpoint was trained with; nothing for --tokenizer none.
std::optional<axonn::Tokenizer> tokenizer_of(const axonn::CheckpointReader& checkpoint);

// Writes the folder, in place of one that a run without checkpoints has left. `resumed`: the
// checkpoint that the run goes on from, whose folder is copied if it is of another run; null for a
// new run. By one process, which holds the run's lock.
void keep_origin(const std::filesystem::path& run, const GptOptions& options,
                 const std::optional<axonn::Tokenizer>& tokenizer, const axonn::CheckpointReader* resumed);
