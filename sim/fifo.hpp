// A queue in one piece of memory. std::deque takes half a kilobyte even when empty, and there is
// one a connection.
#pragma once

#include <cstddef>
#include <vector>

namespace foreduce {

template <class T>
class Fifo {
 public:
  bool empty() const { return head_ == items_.size(); }
  void push(const T& item) { items_.push_back(item); }
  T pop() {
    const T item = items_[head_++];
    if (head_ == items_.size()) {
      items_.clear();
      head_ = 0;
    } else if (head_ >= kMostTaken && 2 * head_ >= items_.size()) {
      items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    return item;
  }
  /// Takes out the first item that `matches`, wherever it is; usually it is the first of all. False
  /// if there is none.
  template <class Matches>
  bool take(T& into, Matches matches) {
    for (std::size_t i = head_; i < items_.size(); ++i) {
      if (!matches(items_[i])) continue;
      into = items_[i];
      for (std::size_t gap = i; gap > head_; --gap) items_[gap] = items_[gap - 1];
      pop();
      return true;
    }
    return false;
  }

 private:
  /// Places of items that were taken, beyond which a queue that is never empty frees them.
  static constexpr std::size_t kMostTaken = 64;

  std::vector<T> items_;
  std::size_t head_ = 0;
};

}  // namespace foreduce
