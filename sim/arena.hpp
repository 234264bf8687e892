// Memory of one simulation. Ranks take and give back a few sizes of small pieces in turn, which
// lie together here, on huge pages where there are many: each message visits several.
#pragma once

#include <array>
#include <cstddef>
#include <memory_resource>
#include <vector>

namespace foreduce {

/// Pieces that are given back are handed out again, the last one first; all memory goes back to the
/// system with the arena. Of one thread.
class Arena final : public std::pmr::memory_resource {
 public:
  Arena() = default;
  ~Arena() override;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* piece, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
  void grow();

  static constexpr std::size_t kLine = 64, kGrain = 16, kLargest = 4096;
  static std::size_t grains_of(std::size_t bytes) {
    return (bytes > 0 ? bytes + kGrain - 1 : kGrain) / kGrain;
  }
  /// A multiple of a line is aligned to one, so that equal pieces never share a line needlessly.
  static std::size_t alignment_of(std::size_t grains) {
    return grains * kGrain % kLine == 0 ? kLine : kGrain;
  }
  /// Whether a piece is the arena's: small, and aligned as its size is. Others are the system's.
  static bool takes(std::size_t grains, std::size_t alignment);
  static constexpr std::size_t kFirst = std::size_t{1} << 16, kHuge = std::size_t{1} << 21,
                               kMost = std::size_t{1} << 25;

  struct Free {
    Free* next;
  };
  std::array<Free*, kLargest / kGrain + 1> free_{};  // by size in grains
  std::vector<void*> regions_;
  std::size_t next_region_ = kFirst;
  std::byte *at_ = nullptr, *end_ = nullptr;  // what is left of the last region
};

}  // namespace foreduce
