#pragma once

#include <axonn/comm/environment.hpp>

#include "gpt_options.hpp"

// One function a subcommand; each returns the exit status. Errors are exceptions.
int run_train(axonn::Environment& environment, GptOptions& options, axonn::OptionTable& table);
void check_generate(const GptOptions& options);  // before a rank is started
int run_generate(axonn::Environment& environment, const GptOptions& options);
void check_verify(const GptOptions& options);  // before a rank is started
int run_verify(axonn::Environment& environment, const GptOptions& options);
int run_dry(const GptOptions& options);  // --dry-run: no ranks, no memory
