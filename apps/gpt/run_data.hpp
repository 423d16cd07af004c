#pragma once

#include <axonn/checkpoint/checkpoint.hpp>
#include <axonn/data/tokens/token_data.hpp>

#include "gpt_options.hpp"

// The data that the options of a run name. `resumed`: the checkpoint that the run goes on from,
// which has its tokenizer; null for a new run. Sets the options that follow from the data: the
// tokenizer that lies beside a file of tokens, the vocabulary and the steps.
axonn::TokenData load_run_data(GptOptions& options, const axonn::CheckpointReader* resumed);
