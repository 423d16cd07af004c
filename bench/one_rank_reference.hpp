#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include <axonn/model/decoder/config.hpp>

// The same GPT step as axonn's on one rank, written by hand with the LibTorch calls that a careful
// user would make. It is the reference for axonn's layers. AdamW treats matrices and vectors
// separately; the norm is clipped at 1.
class OneRankReference {
 public:
  explicit OneRankReference(const axonn::DecoderConfig& config);
  ~OneRankReference();
  double step(const at::Tensor& ids, const at::Tensor& targets);  // (batch, sequence), int64; returns the mean loss

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
