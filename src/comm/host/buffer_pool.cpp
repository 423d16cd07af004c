#include "comm/host/buffer_pool.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

namespace axonn {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kSmallest = 4096;

int size_class(size_t bytes) { return std::bit_width(std::max(bytes, kSmallest) - 1); }

}  // namespace

BufferPool::~BufferPool() {
  for (auto& buffers : free_)
    for (std::byte* buffer : buffers) std::free(buffer);
}

std::byte* BufferPool::take(size_t bytes) {
  const int index = size_class(bytes);
  {
    const std::lock_guard lock(mutex_);
    auto& buffers = free_.at(index);
    if (!buffers.empty()) {
      std::byte* buffer = buffers.back();
      buffers.pop_back();
      return buffer;
    }
  }
  ++allocations_;
  void* buffer = std::aligned_alloc(kCacheLine, size_t{1} << index);
  if (buffer == nullptr) throw std::bad_alloc();
  return static_cast<std::byte*>(buffer);
}

void BufferPool::put(std::byte* buffer, size_t bytes) {
  const std::lock_guard lock(mutex_);
  free_.at(size_class(bytes)).push_back(buffer);
}

void* BufferPool::allocate_object(size_t bytes) {
  const std::lock_guard lock(mutex_);
  return objects_.allocate(bytes, alignof(std::max_align_t));
}

void BufferPool::free_object(void* object, size_t bytes) {
  const std::lock_guard lock(mutex_);
  objects_.deallocate(object, bytes, alignof(std::max_align_t));
}

void* BufferPool::CountingResource::do_allocate(size_t bytes, size_t alignment) {
  ++count_;
  return std::pmr::new_delete_resource()->allocate(bytes, alignment);
}

void BufferPool::CountingResource::do_deallocate(void* block, size_t bytes, size_t alignment) {
  std::pmr::new_delete_resource()->deallocate(block, bytes, alignment);
}

}  // namespace axonn
