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
  std::vector<T> items_;
  std::size_t head_ = 0;
};

}  // namespace foreduce
