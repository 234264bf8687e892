// A queue of pairs of numbers. What a pipeline posts on a connection grows by the same steps from
// one segment to the next: a run of such pairs takes the memory of one of them, in the queue
// itself, and whoever takes one does not wait for other memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>

namespace foreduce {

/// Pairs in the order they came.
class PairQueue {
 public:
  struct Pair {
    std::uint64_t first = 0, second = 0;
    friend bool operator==(const Pair&, const Pair&) = default;
  };

  bool empty() const { return head_.count == 0; }
  void push(const Pair& pair) {
    if (empty()) {
      head_ = Run(pair);
    } else if (Run& last = rest_ && !rest_->empty() ? rest_->back() : head_; !last.goes_on(pair)) {
      if (!rest_) rest_ = std::make_unique<std::deque<Run>>();
      rest_->emplace_back(pair);
    }
  }
  /// Not of an empty queue.
  Pair pop() {
    const Pair pair = head_.next;
    head_.drop_first();
    if (empty()) next_run();
    return pair;
  }
  /// Takes out the first pair with this `first` whose `second` has this lowest bit, wherever it is;
  /// usually it is the first of all. False if there is none. Takes as long as there are runs.
  bool take(std::uint64_t first, std::uint64_t lowest_bit, Pair& into) {
    const std::size_t runs = empty() ? 0 : 1 + (rest_ ? rest_->size() : 0);
    for (std::size_t r = 0; r < runs; ++r) {
      const Run& run = r == 0 ? head_ : (*rest_)[r - 1];
      const std::uint32_t i = run.find(first, lowest_bit);
      if (i == run.count) continue;
      into = run.at(i);
      if (r == 0 && i == 0) pop();
      else take_out(r, i);
      return true;
    }
    return false;
  }

 private:
  /// `count` pairs, each a step behind the one before it.
  struct Run {
    Pair next;
    std::uint32_t first_step = 0, second_step = 0, count = 0;

    Run() = default;
    explicit Run(const Pair& pair) : next(pair), count(1) {}
    Pair at(std::uint32_t i) const {
      return {next.first + std::uint64_t{i} * first_step,
              next.second + std::uint64_t{i} * second_step};
    }
    /// Where such a pair is; `count` if there is none.
    std::uint32_t find(std::uint64_t first, std::uint64_t lowest_bit) const {
      const auto fits = [&](std::uint64_t i) {
        const auto at_i = at(static_cast<std::uint32_t>(i));
        return i < count && at_i.first == first && (at_i.second & 1) == lowest_bit;
      };
      const std::uint64_t i =
          first_step == 0 || first < next.first ? 0 : (first - next.first) / first_step;
      if (fits(i)) return static_cast<std::uint32_t>(i);
      return first_step == 0 && fits(1) ? 1 : count;
    }
    void drop_first() {
      next = at(1);
      --count;
    }
    /// Whether the pair is the run's next one, which it then has.
    bool goes_on(const Pair& pair) {
      if (count == 1) {
        constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
        const std::uint64_t first = pair.first - next.first, second = pair.second - next.second;
        if (first > most || second > most) return false;
        first_step = static_cast<std::uint32_t>(first);
        second_step = static_cast<std::uint32_t>(second);
      } else if (at(count) != pair) {
        return false;
      }
      ++count;
      return true;
    }
  };

  void next_run() {
    if (!rest_ || rest_->empty()) return;
    head_ = rest_->front();
    rest_->pop_front();
  }
  /// The i-th pair of a run, of which the 0-th is head_; not the first of all.
  void take_out(std::size_t r, std::uint32_t i) {
    Run& run = r == 0 ? head_ : (*rest_)[r - 1];
    Run behind = run;
    behind.next = run.at(i + 1);
    behind.count = run.count - i - 1;
    run.count = i;
    const auto after = static_cast<std::ptrdiff_t>(r);
    if (behind.count > 0) {
      if (!rest_) rest_ = std::make_unique<std::deque<Run>>();
      rest_->insert(rest_->begin() + after, behind);
    }
    if (i == 0) rest_->erase(rest_->begin() + after - 1);
  }

  Run head_;
  std::unique_ptr<std::deque<Run>> rest_;  // runs behind it, where there were any
};

}  // namespace foreduce
