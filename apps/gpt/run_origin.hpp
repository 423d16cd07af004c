#pragma once

#include <filesystem>
#include <optional>

#include <axonn/checkpoint/checkpoint.hpp>
#include <axonn/data/tokenizer/tokenizer.hpp>

#include "gpt_options.hpp"

// The folder `origin` of a run: the files of its tokenizer, and those that lay beside the weights
// that it began with, byte for byte. An export writes them again.

// The tokenizer of files that a new run is given; nothing for one that is made without files.
std::optional<axonn::Tokenizer> given_tokenizer(const GptOptions& options);

// The tokenizer that a checkpoint was trained with.
axonn::Tokenizer tokenizer_of(const axonn::CheckpointReader& checkpoint);

// Writes the folder, if it is not there. `resumed`: the checkpoint that the run goes on from, whose
// folder is copied; null for a new run. By one process.
void keep_origin(const std::filesystem::path& run, const GptOptions& options, const axonn::Tokenizer& tokenizer,
                 const axonn::CheckpointReader* resumed);
