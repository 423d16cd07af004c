#pragma once

#include <memory>

#include <axonn/program/program.hpp>

std::unique_ptr<axonn::Command> make_train_command();
std::unique_ptr<axonn::Command> make_sample_command();
std::unique_ptr<axonn::Command> make_verify_command();
