#pragma once

#include <functional>
#include <memory>
#include <string>

#include "axonn/layers/add_to.hpp"
#include "axonn/layers/norms/norm.hpp"

namespace axonn {

// A residual branch between its norm and the stream, such as SelfAttention and Mlp: one layer that
// moves the features to the other axis, and one that moves them back.
class BranchImpl : public ShardedModule {
 public:
  using ShardedModule::ShardedModule;
  // Launches the first sum over an axis. The result waits for it, computes the rest and launches
  // the sum that is added to the stream; it is called once, by the same rows. Neither waits for the
  // last sum. Every rank of the grid calls both.
  using Rest = std::function<PendingValue()>;
  virtual Rest begin(const Value& normalised, const AddTo& add) = 0;
  virtual std::string place() const { return {}; }  // tells the dropouts of a block apart: ".attn"
};

struct ResidualOptions {
  double dropout = 0;     // probability, for every branch before it is added
  std::string name = {};  // the block's: with a branch's place() it names the branch's dropout
  bool in_parts = true;   // as ContextOptions::forward.split says; false: all rows at once
};

// The stream of a block as in the papers: each add() is
//
//   stream = stream + dropout(branch(norm(stream)))
//
// With ContextOptions::forward.split the rows are in parts, and add() takes turns between them, so
// that one part's sums move while another computes. Rows are in dim 0. Sums of the last add() are
// under way until wait(). Lives for one forward; every rank of the grid makes the same calls.
class ResidualStream {
 public:
  // `context` outlives it.
  ResidualStream(Context& context, const Value& stream, ResidualOptions options = {});
  ~ResidualStream();
  void add(NormImpl& norm, BranchImpl& branch);
  Value wait();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
  ResidualOptions options_;
};

}  // namespace axonn
