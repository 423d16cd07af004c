#include "axonn/comm/all_ranks_or_none.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>

#include <ATen/ops/empty.h>

#include "axonn/core/error.hpp"
#include "axonn/core/sentence.hpp"

namespace axonn {
namespace {

struct Failure {
  enum class Kind : int64_t { user, backend, internal } kind = Kind::user;
  std::string where;
  std::string sentence;

  [[noreturn]] void raise() const {
    if (kind == Kind::user) throw UserError(where, sentence);
    if (kind == Kind::backend) throw BackendError(where, sentence);
    throw InternalError(where, sentence);
  }
};

Failure failure_of(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  if (ours == nullptr) return {Failure::Kind::backend, "comm.all_ranks", sentence_of(error)};
  const auto kind = dynamic_cast<const UserError*>(ours) != nullptr      ? Failure::Kind::user
                    : dynamic_cast<const BackendError*>(ours) != nullptr ? Failure::Kind::backend
                                                                         : Failure::Kind::internal;
  return {kind, ours->where(), ours->sentence()};
}

}  // namespace

std::string broadcast_text(Communicator& everyone, const std::string& text, int root) {
  const at::Tensor size = at::empty({1}, at::kLong).fill_(static_cast<int64_t>(text.size()));
  everyone.broadcast(size, root).wait();
  const at::Tensor bytes = at::empty({size.item<int64_t>()}, at::kByte);
  if (everyone.rank() == root) std::copy(text.begin(), text.end(), bytes.mutable_data_ptr<uint8_t>());
  everyone.broadcast(bytes, root).wait();
  return {bytes.const_data_ptr<uint8_t>(), bytes.const_data_ptr<uint8_t>() + bytes.numel()};
}

void all_ranks_or_none(Communicator& everyone, const std::function<void()>& work) {
  std::optional<Failure> mine;
  try {
    work();
  } catch (const std::exception& error) {
    mine = failure_of(error);
  }
  const at::Tensor first = at::empty({1}, at::kLong).fill_(mine ? everyone.rank() : everyone.size());
  everyone.all_reduce(first, ReduceOp::min).wait();
  const auto root = static_cast<int>(first.item<int64_t>());
  if (root == everyone.size()) return;

  Failure shared = mine.value_or(Failure());
  const at::Tensor kind = at::empty({1}, at::kLong).fill_(static_cast<int64_t>(shared.kind));
  everyone.broadcast(kind, root).wait();
  shared.kind = static_cast<Failure::Kind>(kind.item<int64_t>());
  shared.where = broadcast_text(everyone, shared.where, root);
  shared.sentence = broadcast_text(everyone, shared.sentence, root);
  shared.raise();
}

}  // namespace axonn
