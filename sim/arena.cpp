#include "sim/arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace foreduce {

Arena::~Arena() {
  for (void* region : regions_) std::free(region);
}

void Arena::grow() {
  const std::size_t alignment = std::min(next_region_, kHuge);
  void* region = std::aligned_alloc(alignment, next_region_);
  if (!region) throw std::bad_alloc();
  // Where the system has no huge pages, small ones do.
  if (next_region_ >= kHuge) static_cast<void>(madvise(region, next_region_, MADV_HUGEPAGE));
  regions_.push_back(region);
  at_ = static_cast<std::byte*>(region);
  end_ = at_ + next_region_;
  next_region_ = std::min(2 * next_region_, kMost);
}

bool Arena::takes(std::size_t grains, std::size_t alignment) {
  return grains * kGrain <= kLargest && alignment <= alignment_of(grains);
}

void* Arena::do_allocate(std::size_t bytes, std::size_t alignment) {
  const std::size_t grains = grains_of(bytes);
  if (!takes(grains, alignment)) return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  if (Free* piece = free_[grains]) {
    free_[grains] = piece->next;
    return piece;
  }
  const std::size_t size = grains * kGrain, to = alignment_of(grains);
  const auto skipped = static_cast<std::size_t>(-reinterpret_cast<std::intptr_t>(at_)) % to;
  if (static_cast<std::size_t>(end_ - at_) < size + skipped) {
    grow();
    return do_allocate(bytes, alignment);
  }
  std::byte* piece = at_ + skipped;
  at_ = piece + size;
  return piece;
}

void Arena::do_deallocate(void* piece, std::size_t bytes, std::size_t alignment) {
  const std::size_t grains = grains_of(bytes);
  if (!takes(grains, alignment))
    return std::pmr::new_delete_resource()->deallocate(piece, bytes, alignment);
  free_[grains] = ::new (piece) Free{free_[grains]};
}

}  // namespace foreduce
