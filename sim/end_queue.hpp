// When flows end, the next one first. Rates change often: a flow's end moves within the queue,
// where a std::priority_queue would be filled with ends that no longer hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace foreduce {

/// A binary heap in which every flow knows its place. Flows that end at the same moment come in the
/// order of their numbers.
class EndQueue {
 public:
  /// A small number, as FairSharing gives it.
  using Flow = std::uint32_t;

  bool empty() const { return heap_.empty(); }
  /// The first end, in seconds, and whose it is; not of an empty queue.
  double next_at() const { return heap_.front().at; }
  Flow next() const { return heap_.front().flow; }

  /// The flow ends at this second, whether it is in the queue already or not.
  void set(Flow flow, double at) {
    if (flow >= place_.size()) place_.resize(flow + std::size_t{1}, kOutside);
    if (place_[flow] == kOutside) {
      heap_.push_back({at, flow});
      sift_up(heap_.size() - 1, {at, flow});
      return;
    }
    move(place_[flow], {at, flow});
  }

  /// Takes out the flow that ends first.
  void pop() {
    place_[heap_.front().flow] = kOutside;
    const End last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(0, last);
  }

 private:
  struct End {
    double at;
    Flow flow;
    bool before(const End& other) const {
      return at != other.at ? at < other.at : flow < other.flow;
    }
  };
  static constexpr std::uint32_t kOutside = UINT32_MAX;

  void put(std::size_t at, const End& end) {
    heap_[at] = end;
    place_[end.flow] = static_cast<std::uint32_t>(at);
  }
  void move(std::size_t at, const End& end) {
    if (at > 0 && end.before(heap_[(at - 1) / 2])) sift_up(at, end);
    else sift_down(at, end);
  }
  void sift_up(std::size_t at, const End& end) {
    for (; at > 0 && end.before(heap_[(at - 1) / 2]); at = (at - 1) / 2)
      put(at, heap_[(at - 1) / 2]);
    put(at, end);
  }
  void sift_down(std::size_t at, const End& end) {
    for (std::size_t child = 2 * at + 1; child < heap_.size(); child = 2 * at + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1].before(heap_[child])) ++child;
      if (!heap_[child].before(end)) break;
      put(at, heap_[child]);
      at = child;
    }
    put(at, end);
  }

  std::vector<End> heap_;
  std::vector<std::uint32_t> place_;  // in the heap, by flow
};

}  // namespace foreduce
