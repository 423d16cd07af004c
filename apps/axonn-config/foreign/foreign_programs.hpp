#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "foreign/foreign_layout.hpp"
#include "foreign/foreign_words.hpp"

// The words of each program, written and read, and what they share.

void print_megatron(std::ostream& out, const ForeignLayout& layout);
void print_torchtitan(std::ostream& out, const ForeignLayout& layout);
void print_deepspeed(std::ostream& out, const ForeignLayout& layout);
ForeignLayout read_megatron(const ForeignWords& words, int64_t gpus);
ForeignLayout read_torchtitan(const ForeignWords& words, int64_t gpus);
ForeignLayout read_deepspeed(const ForeignWords& words, int64_t gpus);

inline bool runs_again(const ForeignLayout& layout) { return layout.checkpoint == axonn::Checkpointing::on; }

// UserError for a degree of another kind of parallelism, which is no axis of a grid of ours.
void refuse_degree(const ForeignWords& words, const std::string& key);

// The context at `key`. `how`: the way of keys and values, which is `passes` or `gathers`.
axonn::ContextSplit context_of(const ForeignWords& words, const std::string& key, const std::string& how,
                               const std::string& passes, const std::string& gathers);

// The batch that a program takes: what its file gives, the rest follows. 0: not given.
struct GivenBatch {
  int64_t all = 0, micro = 0, passes = 0;
};
void set_batch(ForeignLayout& layout, const GivenBatch& given);
