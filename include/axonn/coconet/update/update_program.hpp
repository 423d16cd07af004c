#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/coconet/transform/transformation.hpp"
#include "axonn/terms/update_schedule.hpp"

// An optimizer as a program. The trainer knows it by its structure: no function knows its name.
namespace axonn::coconet {

// Numbers that the trainer sets, by name. A program may leave them out. All other scalars are
// settings: the program gives their values, and a user may change them.
inline constexpr std::string_view kLearningRate = "lr";
inline constexpr std::string_view kUpdateNumber = "step";  // from 1
inline constexpr std::string_view kMostNorm = "max_norm";  // infinity: never clip
inline constexpr std::string_view kUnscale = "unscale";    // 1 / the factor of the loss
inline constexpr std::string_view kTrainerNumbers[] = {kLearningRate, kUpdateNumber, kMostNorm, kUnscale};
// A result that the trainer reads: the norm of the gradients over the whole network, without the
// factor of the loss. Nothing is updated when it is not finite, if all updates depend on it.
inline constexpr std::string_view kGradientNorm = "gradient_norm";
// The factor of gradients when they are clipped or the loss has a factor; else it is 1.
inline constexpr std::string_view kGradientFactor = "scale";
// The weight decay of each tensor, a tensor [T, 1].
inline constexpr std::string_view kDecay = "decay";

std::span<const Rule> update_rules();

// A program that updates the weights of a network:
//
//   size T, K                         # tensors, and elements of each
//   tensor g fp32 [T, K] local        # the gradients
//   tensor w fp32 [T, K] replicated   # the weights
//   tensor m fp32 [T, K] replicated   # state: begins as zeros, is saved in checkpoints as NAME.m
//   tensor z fp32 [T, K] replicated = w   # state that begins as the weights; or a number
//   scalar lr = 0.001
//   sum = all_reduce(+, g)
//   gradient_norm = norm(sum)         # may be left out: it is computed all the same
//   m1 = update(m, ...)
//   w1 = update(w, ...)
//   return w1
//
// The tensors of a network have many sizes: a row stands for one tensor. fp32 stands for the type
// of master weights. It is a value, and keeps update_rules().
class UpdateProgram {
 public:
  // UserError that names the rule and the statement.
  explicit UpdateProgram(Program program);

  const Program& program() const { return program_; }
  const std::string& name() const { return program_.name(); }
  const std::string& gradients() const { return gradients_; }  // the local tensor
  const std::string& sum() const { return sum_; }              // the statement that reduces it
  const std::string& weights() const { return weights_; }      // the tensor whose update is returned
  // The other tensors that it updates, in order.
  const std::vector<std::string>& state() const { return state_; }
  // The tensor that holds the master weights: weights() itself, or the one that is rounded to them.
  const std::string& master() const { return master_; }
  // The state that does not begin as zeros.
  struct Start {
    std::string tensor;
    std::optional<double> value;  // all elements'; none: a copy of the master weights
  };
  std::vector<Start> starts() const;
  // The scalars that the trainer does not set.
  std::vector<std::string> settings() const;
  bool has_number(std::string_view name) const { return program_.find_declaration(name) != nullptr; }
  bool clips() const { return program_.find_statement(kGradientFactor) != nullptr; }

  // Whether every update waits for the norm: else a norm that is not finite comes too late.
  bool updates_after_norm() const;

  // Gradients of another type are computed in the master weights' type. If weights have another
  // type, the returned update is of the rounded weights, NAME.rounded, and the master weights are
  // state.
  UpdateProgram with_types(ElementType weights, ElementType gradients, ElementType master) const;
  // Without the factor of gradients: for runs that neither clip nor scale the loss.
  UpdateProgram without_factor() const;
  // Also updates a tensor `ema` from the new weights: ema + ema_rate * (weights - ema).
  UpdateProgram with_average() const;

  // The transformations that give the schedule.
  Schedule scheduled(UpdateSchedule schedule = UpdateSchedule::ar_opt) const;

 private:
  void find_sum();
  void add_norm();
  void check_shapes() const;
  void find_state();

  Program program_;
  std::string gradients_, sum_, weights_, master_;
  std::vector<std::string> state_;
};

// The program of a file. UserError with the file and the statement.
UpdateProgram load_update_program(const std::filesystem::path& path);

inline constexpr std::string_view kAverage = "ema";
inline constexpr std::string_view kAverageRate = "ema_rate";

}  // namespace axonn::coconet
