#pragma once

#include <cstdint>
#include <map>
#include <string>

// Keys and values of another program's file.
using ForeignWords = std::map<std::string, std::string>;

// "--key value", "--key=value" and "--key"
ForeignWords words_of_arguments(const std::string& text);
// "key = value # comment" by section: "parallelism.tensor_parallel_degree". No value of a layout
// has a # in it.
ForeignWords words_of_toml(const std::string& text);
// By object: "zero_optimization.stage". UserError for what is no object.
ForeignWords words_of_json(const std::string& text);

// The number or word at the key. UserError unless a number is a whole one from 1.
int64_t number_of(const ForeignWords& words, const std::string& key, int64_t otherwise);
std::string word_of(const ForeignWords& words, const std::string& key, const std::string& otherwise);
// 0 for nothing, -1 (torchtitan) or auto (DeepSpeed): the program decides.
int64_t given_number(const ForeignWords& words, const std::string& key);
