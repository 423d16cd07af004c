#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

namespace axonn {

// An unfinished collective. Copies share its state. A default-constructed request is done.
class Request {
 public:
  struct State;  // implemented by the backend: progress engine, NCCL event

  Request() = default;
  explicit Request(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // CPU: polls until the result is in the buffers, without naps unless ranks outnumber cores. CUDA:
  // makes the current compute stream wait and returns at once. Throws BackendError when the
  // collective failed or, on the CPU, made no progress for AXONN_TIMEOUT_SECONDS.
  void wait() const;
  bool done() const;
  // When a finished collective began and stopped moving; empty when the backend does not report it.
  using Times = std::pair<std::chrono::steady_clock::time_point, std::chrono::steady_clock::time_point>;
  std::optional<Times> moved() const;
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

struct Request::State {
  virtual ~State() = default;
  virtual void wait() = 0;
  virtual bool done() = 0;
  virtual std::optional<Times> moved() const { return {}; }
};

inline void Request::wait() const {
  if (state_) state_->wait();
}
inline bool Request::done() const { return !state_ || state_->done(); }
inline std::optional<Request::Times> Request::moved() const { return state_ ? state_->moved() : std::nullopt; }

}  // namespace axonn
