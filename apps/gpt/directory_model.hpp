#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <axonn/data/tokenizer/tokenizer.hpp>
#include <axonn/program/checkpoint_command.hpp>

#include "gpt_options.hpp"

// The network of a directory of Hugging Face's; its sizes go into `options`. Null for another path.
std::unique_ptr<axonn::TrainedModel> open_directory(const std::string& path, GptOptions& options);

// The folder of files that came with a model, if it has any: generation_config.json, those of its
// tokenizer.
std::filesystem::path files_of(const axonn::TrainedModel& model);

// The tokenizer of a checkpoint, or the files' of a directory; nothing if it has none.
std::optional<axonn::Tokenizer> tokenizer_of(const axonn::TrainedModel& model);
