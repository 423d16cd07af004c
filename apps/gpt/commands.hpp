#pragma once

#include <memory>

#include <axonn/program/program.hpp>

std::unique_ptr<axonn::Command> make_train_command();
std::unique_ptr<axonn::Command> make_generate_command();
std::unique_ptr<axonn::Command> make_eval_command();
std::unique_ptr<axonn::Command> make_verify_command();
std::unique_ptr<axonn::Command> make_export_command();
std::unique_ptr<axonn::Command> make_tokenize_command();
