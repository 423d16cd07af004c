#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <vector>

namespace axonn {

// Memory that collectives reuse, so that a training step in steady state allocates nothing. Counts
// its allocations from the system.
class BufferPool {
 public:
  BufferPool() = default;
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Staging memory, aligned to a cache line.
  std::byte* take(size_t bytes);
  void put(std::byte* buffer, size_t bytes);

  // Small objects: operations and their control blocks.
  void* allocate_object(size_t bytes);
  void free_object(void* object, size_t bytes);

  int64_t allocations() const { return allocations_; }

 private:
  static constexpr int kClasses = 40;  // one per power of two

  struct CountingResource : std::pmr::memory_resource {
    explicit CountingResource(std::atomic<int64_t>& count) : count_(count) {}
    void* do_allocate(size_t bytes, size_t alignment) override;
    void do_deallocate(void* block, size_t bytes, size_t alignment) override;
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
    std::atomic<int64_t>& count_;
  };

  std::mutex mutex_;
  std::atomic<int64_t> allocations_{0};
  std::array<std::vector<std::byte*>, kClasses> free_;
  CountingResource upstream_{allocations_};
  std::pmr::unsynchronized_pool_resource objects_{&upstream_};
};

// For std::allocate_shared: keeps the pool alive as long as any object from it.
template <typename T>
struct PoolAllocator {
  using value_type = T;
  explicit PoolAllocator(std::shared_ptr<BufferPool> memory) : pool(std::move(memory)) {}
  template <typename U>
  PoolAllocator(const PoolAllocator<U>& other) : pool(other.pool) {}  // NOLINT: rebinding is implicit by the standard
  T* allocate(size_t count) { return static_cast<T*>(pool->allocate_object(count * sizeof(T))); }
  void deallocate(T* object, size_t count) { pool->free_object(object, count * sizeof(T)); }
  template <typename U>
  bool operator==(const PoolAllocator<U>& other) const {
    return pool == other.pool;
  }
  std::shared_ptr<BufferPool> pool;
};

}  // namespace axonn
