// The interface between algorithms and backends. An algorithm is a function of a Transport, and
// runs unchanged in the simulator and on hardware.
//
// Verbs return events instead of blocking, because overlap is the subject; `after` makes pipelining
// a data dependency, so a rank posts its whole schedule and waits once. The rules every backend
// keeps:
//  * `send` reads its elements between `after` and its own event. `recv` and `recv_reduce` write
//    theirs.
//  * A write to elements waits for the rank's earlier posted verbs on the same elements. So
//    reductions into the same elements happen in posting order, which gives the same bits
//    everywhere. An exchange in place (send x, then recv_reduce into x) is safe: a message that
//    arrives early is buffered, and its sender does not wait.
//  * A `send` of elements that an earlier verb still writes must say so with `after`.
//  * A (sender, receiver, tag) triple is used once within one all-reduce.
//  * `wait` blocks this rank only; all its pending events progress, whichever one is awaited.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "algorithms/core/buffer.hpp"
#include "algorithms/core/layout.hpp"

namespace foreduce {

/// What a switch that can reduce and multicast (NVLS) does with a message between GPUs of its node.
/// To every other backend it is an ordinary message; only an algorithm whose layout says
/// `switch_reduces` may ask.
enum class InSwitch : std::uint8_t {
  no,
  reduce,  ///< summed with the other senders' on the way: the receiver's link carries the sum only,
           ///< and reducing is free
  multicast  ///< one of several copies that the switch makes: the sender's link carries it once
};

/// Which of a double tree's two trees, each with half of the data; all other schedules have only
/// the first.
enum class Half : std::uint8_t { first, second };

/// Whether a message is part of a transfer that an earlier message began.
enum class Packed : std::uint8_t {
  no,
  yes  ///< an implementation packs it behind the message that the rank posted before it to the same
       ///< receiver, so that both cost one message; real transports send it on its own
};

/// Names a message between two ranks: which step of the schedule, which segment of the data, which
/// channel. Limits (checked): those of TagBits.
struct Tag {
  int step = 0;
  int segment = 0;
  int channel = 0;
  Half half = Half::first;
  InSwitch in_switch = InSwitch::no;
  Packed packed = Packed::no;
};

/// Names something that happens later, such as the end of a send. Event 0 has already happened.
struct Event {
  std::uint32_t id = 0;
  friend bool operator==(Event, Event) = default;
};

/// What one rank put on the wire, counted once for all backends.
struct Traffic {
  std::uint64_t messages_sent = 0;
  std::uint64_t elements_sent = 0;
};

/// A run that cannot go on: a stuck or broken run. The message names ranks, verbs, peers, tags and
/// bytes.
class TransportError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a backend implements, one object a rank. Tags arrive packed; ranks and elements are
/// checked.
class Backend {
 public:
  virtual ~Backend() = default;
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  const Traffic& traffic() const { return traffic_; }

 protected:
  friend class Transport;
  virtual Event do_send(int to, std::uint64_t tag, Buffer data, Event after) = 0;
  virtual Event do_recv(int from, std::uint64_t tag, Buffer into) = 0;
  virtual Event do_recv_reduce(int from, std::uint64_t tag, Buffer into, Op op) = 0;
  virtual Event do_join(std::span<const Event> events) = 0;
  virtual void do_wait(Event event) = 0;
  virtual void do_wait_all() = 0;
  virtual double do_now() const = 0;

 private:
  Traffic traffic_;
};

/// A tag as backends see it, of that group of ranks. Throws std::logic_error if a field does not
/// fit.
std::uint64_t pack(const Tag& tag, int group);

/// Unpacks it for people: "step 3, segment 0, channel 1, group 0".
std::string describe_tag(std::uint64_t tag);

/// How many bits of a packed tag its fields take, from the lowest on: step, packed, segment, half,
/// channel, group; above them is what the switch does. A simulator asks for them several times a
/// message, so that is inline.
struct TagBits {
  static constexpr int step = 19, packed = 1, segment = 20, half = 1, channel = 8, group = 13;
  static constexpr int segment_at = step + packed, half_at = segment_at + segment,
                       channel_at = half_at + half, group_at = channel_at + channel,
                       in_switch_at = group_at + group;
};

/// The channel in a packed tag: messages of one channel between two ranks travel in order.
inline int channel_of(std::uint64_t tag) {
  return static_cast<int>(tag >> TagBits::channel_at & ((1u << TagBits::channel) - 1));
}
/// The segment in a packed tag.
inline int segment_of(std::uint64_t tag) {
  return static_cast<int>(tag >> TagBits::segment_at &
                          ((std::uint64_t{1} << TagBits::segment) - 1));
}
/// The same packed tag on another channel; and of the other half of the data, see Symmetry::mirror.
std::uint64_t with_channel(std::uint64_t tag, int channel);
std::uint64_t with_other_half(std::uint64_t tag);
/// Whether a message belongs to the second tree of a double tree.
inline bool is_second_half(std::uint64_t tag) { return (tag >> TagBits::half_at & 1) != 0; }

/// Whether the message of a packed tag costs no message of its own.
inline bool is_packed(std::uint64_t tag) { return (tag >> TagBits::step & 1) != 0; }

/// The group of the transport that sent it, see Transport::subset.
inline int group_of(std::uint64_t tag) {
  return static_cast<int>(tag >> TagBits::group_at & ((1u << TagBits::group) - 1));
}

/// What the switch does with the message of a packed tag.
inline InSwitch in_switch_of(std::uint64_t tag) {
  return static_cast<InSwitch>(tag >> TagBits::in_switch_at);
}

/// Groups from this one on are of a second collective at the same time, on connections of its own.
inline constexpr int kSecondCollective = 4096;

/// A rank's view of a group of ranks: all of them, or a subset, which is again a transport. Cheap
/// to move; the backend and the layout must outlive it.
class Transport {
 public:
  /// All ranks of `layout`, seen from `rank`.
  Transport(Backend& backend, const Layout& layout, int rank);

  int rank() const { return rank_; }
  int size() const { return layout_->size(); }
  const Layout& layout() const { return *layout_; }

  /// Sends once `after` has happened. The bytes may be read until the returned event happens.
  Event send(int to, Tag tag, Buffer data, Event after = {});
  /// Receives what `from` sent under the same tag.
  Event recv(int from, Tag tag, Buffer into);
  /// Receives and reduces: into = op(into, arrived). One verb, so that a kernel, a NIC or a cost
  /// model may fuse it, and no algorithm owns scratch memory.
  Event recv_reduce(int from, Tag tag, Buffer into, Op op);
  /// Happens when all of them have; costs nothing and moves nothing.
  Event join(std::span<const Event> events);
  void wait(Event event);
  void wait_all();
  /// Seconds: virtual in the simulator, a steady clock on hardware.
  double now() const;

  /// The given ranks of this transport as a transport of their own, numbered as listed; this rank
  /// must be among them. `group` is added to this transport's own (0 for all ranks); the sum (1 …
  /// 4095, of a second collective 4096 more) keeps its tags apart from those of other subsets in
  /// use at the same time. Throws std::invalid_argument beyond that.
  Transport subset(std::span<const int> ranks, int group) const;
  /// The same ranks with `group` added to their group: as a subset of all of them, but at no cost.
  Transport in_group(int group) const;

 private:
  Transport() = default;
  int checked_peer(int peer) const;
  /// This transport's own group with `group` added. Throws std::invalid_argument where that
  /// would be one of another collective.
  int group_beyond(int group) const;

  Backend* backend_ = nullptr;
  const Layout* layout_ = nullptr;
  int rank_ = 0;
  int group_ = 0;
  struct Subset;
  std::shared_ptr<const Subset> subset_;  // null for all ranks
};

}  // namespace foreduce
