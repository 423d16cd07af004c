#include "train/saver.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ops/tensor.h>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/process_memory.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "train.save";

std::string sentence_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& ours) {
    return ours.sentence();
  } catch (const std::exception& other) {
    return other.what();
  }
}

void throw_if_of_user(const std::exception_ptr& error) {
  if (!error) return;
  try {
    std::rethrow_exception(error);
  } catch (const UserError&) {
    throw;
  } catch (const std::exception&) {  // the system's: the next save may succeed
  }
}

// Half of the memory that is free on the host now, divided by its ranks: a run that has room before
// it saves has room while it does.
int64_t safe_copy_bytes(int local_ranks) { return free_host_bytes() / 2 / local_ranks; }

}  // namespace

Saver::Saver(const CheckpointWriter& writer, Communicator& everyone, Options options)
    : writer_(writer), everyone_(everyone), options_(std::move(options)) {}

Saver::~Saver() {
  if (staging_) staging_->give_up();
  if (thread_.joinable()) thread_.join();
}

void Saver::start(Part part, std::function<void()> work) {
  part_ = part;
  ended_ = false;
  const auto run = [this, work = std::move(work)] {
    try {
      work();
    } catch (...) {
      error_ = std::current_exception();
    }
    staging_->release();
    ended_ = true;
  };
  if (options_.behind)
    thread_ = std::thread(run);
  else
    run();
}

int64_t Saver::most_copies() const {
  if (!options_.behind) return 0;
  return options_.memory > 0 ? options_.memory : safe_copy_bytes(options_.local_ranks);
}

void Saver::expect(std::span<const CheckpointTensor> tensors) {
  const int64_t bytes = std::min(writer_.bytes_of(tensors), most_copies());
  if (bytes == 0) return;
  touching_ = std::jthread([this, bytes](const std::stop_token& stop) {
    try {
      copies_.touch(static_cast<size_t>(bytes), stop);
    } catch (const BackendError&) {  // a save will find it too, and says so
    }
  });
}

void Saver::save(CheckpointState state, std::vector<CheckpointTensor> tensors) {
  finish();
  step_ = state.step;
  path_ = writer_.path_of(state).string();
  failed_ = false;
  refused_ = error_ = first_error_ = nullptr;
  try {
    save_ = writer_.begin(std::move(state), std::move(tensors));
  } catch (const UserError&) {
    throw;
  } catch (const std::exception&) {
    refused_ = std::current_exception();
  }
  staging_.emplace(most_copies(), &copies_);
  part_ = Part::begun;
  ended_ = false;
  if (!options_.behind) finish();
}

void Saver::start_copies() {
  if (part_ != Part::begun) return;
  options_.wait_for_tensors();
  if (save_) save_->values_on_stream();
  start(Part::writing, [this] {
    if (refused_) std::rethrow_exception(refused_);
    touching_ = {};  // stops
    save_->write(&*staging_);
  });
}

void Saver::wait_until_copied() {
  start_copies();
  if (staging_) staging_->wait_until_copied();
}

// Whether this rank is busy, and where it has failed: the lowest rank gives the greatest number.
Saver::Progress Saver::progress() const {
  const bool ended = ended_;
  return {ended ? 0.0 : 1.0, ended && error_ ? static_cast<double>(everyone_.size() - everyone_.rank()) : 0.0};
}

void Saver::advance(const Progress& greatest) {
  if (part_ == Part::none) return;
  const auto& [busy, failed] = greatest;
  if (failed > 0 && !failed_) report(everyone_.size() - static_cast<int>(failed));
  if (busy == 0) end_part();
}

void Saver::report(int failed_rank) {
  failed_ = true;
  if (ended_) first_error_ = error_;
  staging_->give_up();
  all_ranks_or_none(everyone_, [&] { throw_if_of_user(first_error_); });
  if (everyone_.rank() == failed_rank)
    log::error("the checkpoint of step ", step_, " was not written: ", sentence_of(first_error_), "; ",
               newest_.empty() ? "none has been written in this run" : "the newest one is " + newest_);
}

// Every rank has ended its part.
void Saver::end_part() {
  if (thread_.joinable()) thread_.join();
  error_ = nullptr;
  const bool lead = everyone_.rank() == 0;
  if (part_ == Part::removing || (part_ == Part::completing && !failed_)) {
    if (!failed_) newest_ = path_;
    part_ = Part::none;
    save_.reset();
    staging_.reset();
  } else if (failed_) {
    start(Part::removing, [this, lead] {
      if (lead && save_) save_->discard();
    });
  } else {
    save_->exchange();
    start(Part::completing, [this, lead] {
      if (lead) save_->commit();
    });
  }
}

void Saver::finish() {
  start_copies();
  while (part_ != Part::none) {
    if (thread_.joinable()) thread_.join();
    const Progress mine = progress();
    const at::Tensor all = at::tensor(at::ArrayRef<double>(mine.data(), mine.size()), at::kDouble);
    everyone_.all_reduce(all, ReduceOp::max).wait();
    const double* greatest = all.const_data_ptr<double>();
    advance({greatest[0], greatest[1]});
  }
}

void Saver::check_last() {
  finish();
  if (!failed_) return;
  all_ranks_or_none(everyone_, [&] {
    if (first_error_)
      throw BackendError(kWhere, detail::concatenate("the last checkpoint, of step ", step_, ", was not written: ",
                                                     sentence_of(first_error_), "; mend this, and resume the run"));
  });
}

}  // namespace axonn
