// A few messages at a time: who sends to everybody keeps only some on the way, as a NIC's queue
// does. The wire stays full, the receivers are visited in turn, and nobody is flooded.
#pragma once

#include <array>

#include "algorithms/core/transport.hpp"

namespace foreduce {

class Window {
 public:
  /// Sends as soon as `after` has happened and the message kDepth places before this one has left.
  Event send(Transport& t, int to, Tag tag, Buffer data, Event after) {
    Event& slot = last_[next_++ % kDepth];
    const Event both[] = {after, slot};
    return slot = t.send(to, tag, data, t.join(both));
  }

 private:
  static constexpr std::size_t kDepth = 8;
  std::array<Event, kDepth> last_{};
  std::size_t next_ = 0;
};

}  // namespace foreduce
