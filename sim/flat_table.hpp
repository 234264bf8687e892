// Connections by who sends to whom: a hash table in one piece of memory, for every message asks it
// twice, and each step through a list of nodes would wait for memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <vector>

namespace foreduce {

/// Values that are made when they are first asked for, and stay where they are. `Key` has
/// operator== and `Hash`, whose low bits are as good as its others.
template <class Key, class Value, class Hash>
class FlatTable {
 public:
  Value& operator[](const Key& key) {
    if (2 * values_.size() >= places_.size()) grow();
    Place& place = place_of(key);
    if (!place.value) {
      place.key = key;
      place.value = &values_.emplace_back();
    }
    return *place.value;
  }

 private:
  struct Place {
    Key key;
    Value* value = nullptr;  // null: free
  };

  /// Where a key is, or is to be.
  Place& place_of(const Key& key) {
    const std::size_t mask = places_.size() - 1;
    for (std::size_t at = Hash{}(key)&mask;; at = (at + 1) & mask)
      if (Place& place = places_[at]; !place.value || place.key == key) return place;
  }
  void grow() {
    constexpr std::size_t kLeast = 64;
    std::vector<Place> old(std::max(kLeast, 2 * places_.size()));
    old.swap(places_);
    for (const Place& place : old)
      if (place.value) place_of(place.key) = place;
  }

  std::vector<Place> places_;  // a power of two of them, at most half in use
  std::deque<Value> values_;
};

}  // namespace foreduce
