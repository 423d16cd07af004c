#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace axonn {

// Threads that do what they are given, in its order. Those that have not begun at the end are left.
class WorkerThreads {
 public:
  explicit WorkerThreads(int count) {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { run(); });
  }
  ~WorkerThreads() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  void add(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(work));
    }
    changed_.notify_one();
  }

 private:
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
      if (ends_) return;
      const std::function<void()> work = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      work();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

// Calls make() on this thread until it returns nullopt, work(made) for each on one of `workers`
// threads, and use(result) on this thread, in the order in which they were made. At most
// 2 * workers + 1 are between make() and use(). The first exception, in this order, is thrown here.
template <typename Make, typename Work, typename Use>
void work_in_order(int workers, const Make& make, const Work& work, const Use& use) {
  using Made = typename std::invoke_result_t<const Make&>::value_type;
  using Result = std::invoke_result_t<const Work&, const Made&>;
  const size_t most = 2 * static_cast<size_t>(workers) + 1;
  std::deque<std::future<Result>> results;
  WorkerThreads threads(workers);  // ends first: its work refers to `work`
  bool more = true;
  while (more || !results.empty()) {
    while (more && results.size() < most) {
      std::optional<Made> made;
      try {
        made = make();
      } catch (...) {  // comes after the results before it
        std::promise<Result> failed;
        failed.set_exception(std::current_exception());
        results.push_back(failed.get_future());
        more = false;
        break;
      }
      more = made.has_value();
      if (!more) break;
      auto task = std::make_shared<std::packaged_task<Result()>>(
          [&work, given = std::make_shared<Made>(std::move(*made))] { return work(*given); });
      results.push_back(task->get_future());
      threads.add([task] { (*task)(); });
    }
    if (results.empty()) break;
    use(results.front().get());
    results.pop_front();
  }
}

}  // namespace axonn
