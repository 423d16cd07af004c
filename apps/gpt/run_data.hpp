#pragma once

#include <axonn/checkpoint/checkpoint.hpp>
#include <axonn/comm/communicator.hpp>
#include <axonn/data/tokens/token_data.hpp>
#include <axonn/tasks/text/text_cache.hpp>

#include "gpt_options.hpp"

// The data that the options of a run name, texts as tokens of its cache. `resumed`: the checkpoint
// that the run goes on from, which has its tokenizer; null for a new run. Sets the options that
// follow from the data: the tokenizer that lies beside a file of tokens, the vocabulary and the
// steps. Every rank calls it. UserError on all of them, also if they have other texts.
axonn::TokenData load_run_data(axonn::Communicator& everyone, GptOptions& options, axonn::TextCache& cache,
                               const axonn::CheckpointReader* resumed);
