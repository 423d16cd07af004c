#include "tasks/text/work_on_all.hpp"

#include <atomic>
#include <chrono>
#include <future>

#include <ATen/ops/empty.h>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/log.hpp"

namespace axonn {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kBetweenMeetings{1}, kBetweenSentences{30};

struct StopAtEnd {
  TextEncoding::Progress& progress;
  ~StopAtEnd() { progress.stop = true; }
};

}  // namespace

void work_on_all(Communicator& everyone, const std::function<void(TextEncoding::Progress&)>& work,
                 const std::function<std::string(int64_t bytes)>& sentence) {
  TextEncoding::Progress progress;
  std::atomic<bool> failed = false;
  std::future<void> mine = std::async(std::launch::async, [&] {
    try {
      work(progress);
    } catch (...) {
      failed = true;
      throw;
    }
  });
  const StopAtEnd stop{progress};  // the end of `mine` waits for the work
  const at::Tensor figures = at::empty({3}, at::kLong);
  auto* const numbers = figures.mutable_data_ptr<int64_t>();
  Clock::time_point told = Clock::now();
  do {
    numbers[0] = mine.wait_for(kBetweenMeetings) == std::future_status::ready ? 0 : 1;
    numbers[1] = failed ? 1 : 0;
    numbers[2] = progress.bytes;
    everyone.all_reduce(figures).wait();
    if (numbers[1] > 0) progress.stop = true;
    if (everyone.rank() == 0 && Clock::now() - told >= kBetweenSentences) {
      told = Clock::now();
      log::info(sentence(numbers[2]));
    }
  } while (numbers[0] > 0);
  all_ranks_or_none(everyone, [&] { mine.get(); });
}

}  // namespace axonn
