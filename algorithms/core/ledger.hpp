// The bookkeeping that every backend on a host shares: which verbs are pending, what each of them
// waits for
// (`after`, joins, earlier verbs on the same elements), and when a rank may go on. A backend adds
// only how bytes move and how long that takes.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "algorithms/core/transport.hpp"

namespace foreduce {

enum class Verb : std::uint8_t { send, recv, recv_reduce, join };
const char* name_of(Verb verb);

/// One posted verb of one rank.
struct Pending {
  Buffer buffer;
  std::uint64_t tag = 0;
  int peer = -1;
  std::uint32_t blockers = 0;         ///< events that must happen first
  std::uint32_t first_dependent = 0;  ///< head of a list in the ledger's pool; 0 ends it
  Verb verb = Verb::join;
  Op op = Op::sum;
  bool arrived = false;  ///< a receive whose bytes are here, set aside
  bool done = false;
  std::size_t here = 0;  ///< bytes of a receive that have arrived, where its backend counts them
};

/// Whether a ledger keeps what is over, until LedgerBackend::forget().
enum class DoneVerbs : std::uint8_t {
  kept,
  dropped  ///< a schedule that is posted as it runs takes memory for its open verbs only
};

/// The verbs of a rank by event, in blocks. [0] stands for "has happened".
class PendingVerbs {
 public:
  explicit PendingVerbs(DoneVerbs done) : done_(done) { clear(); }

  Pending& operator[](std::uint32_t id) { return blocks_[id / kBlock]->verbs[id % kBlock]; }
  const Pending& operator[](std::uint32_t id) const {
    return blocks_[id / kBlock]->verbs[id % kBlock];
  }
  std::uint32_t size() const { return size_; }
  bool done(std::uint32_t id) const {
    const auto& block = blocks_[id / kBlock];
    return !block || block->verbs[id % kBlock].done;
  }
  /// The new verb's number.
  std::uint32_t add(const Pending& verb);
  /// Marks it as done. References to verbs that are done are no longer valid, where these are
  /// dropped.
  void close(std::uint32_t id);
  void clear();

 private:
  static constexpr std::uint32_t kBlock = 64;
  struct Block {
    std::array<Pending, kBlock> verbs;
    std::uint32_t closed = 0;
  };

  DoneVerbs done_;
  std::uint32_t size_ = 0;
  std::vector<std::unique_ptr<Block>> blocks_;  // null: all of its verbs are done
};

/// One finished verb, for timelines. Seconds on the backend's clock.
struct Span {
  int rank = 0;
  Verb verb = Verb::send;
  int peer = -1;
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
  double posted = 0, ended = 0;
};

class LedgerBackend : public Backend {
 public:
  explicit LedgerBackend(int rank, DoneVerbs done = DoneVerbs::kept) : rank_(rank), pending_(done) {
    edges_.emplace_back();
  }

  int rank() const { return rank_; }
  bool all_done() const { return open_ == 0; }
  /// Forgets the finished verbs, so that a rank may run one all-reduce after another for ever. All
  /// must be done.
  void forget();
  /// Every unfinished verb, one line each: verb, peer, tag, bytes, and what it waits for.
  std::string describe_pending(std::size_t at_most = 8) const;
  /// From now on each finished verb is kept as a Span.
  void record_timeline() { recording_ = true; }
  const std::vector<Span>& timeline() const { return timeline_; }

 protected:
  // What a backend adds. All three are called with the ledger in a consistent state and may call
  // finish().
  virtual void send_ready(Event send) = 0;   ///< `after` has happened: the bytes may be read
  virtual void recv_posted(Event recv) = 0;  ///< a receive that may be matched
  virtual void may_write(Event recv) = 0;    ///< an arrived receive whose elements are free now

  Event do_send(int to, std::uint64_t tag, Buffer data, Event after) override;
  Event do_recv(int from, std::uint64_t tag, Buffer into) override;
  Event do_recv_reduce(int from, std::uint64_t tag, Buffer into, Op op) override;
  Event do_join(std::span<const Event> events) override;

  Pending& at(Event event) { return pending_[event.id]; }
  const Pending& at(Event event) const { return pending_[event.id]; }
  /// Reduces or copies what arrived into the elements of a receive; nothing to do for a phantom.
  void put(Event recv, const std::byte* bytes) { put(recv, bytes, 0, at(recv).buffer.count); }
  /// The same for `count` of its elements, from the `first` on.
  void put(Event recv, const std::byte* bytes, std::size_t first, std::size_t count);
  bool done(Event event) const { return event.id == 0 || pending_.done(event.id); }
  /// How many verbs are posted and not done.
  std::size_t open_verbs() const { return open_; }
  /// Frees what is known of elements that no open verb touches.
  void drop_untouched_cells();
  /// Marks `event` as happened and sets going whatever waited for it.
  void finish(Event event);

 private:
  struct Edge {
    std::uint32_t event, next;
  };
  /// Elements [key, end) and the verbs that touched them last.
  struct Cell {
    std::size_t end = 0;
    Event writer;
    std::vector<Event> readers;
  };
  using Cells = std::map<std::size_t, Cell>;

  Event open(Verb verb, int peer, std::uint64_t tag, Buffer buffer);
  Event post_write(Verb verb, int from, std::uint64_t tag, Buffer into, Op op);
  void depend(Event event, Event on);
  Cells::iterator cut(std::size_t where);
  template <class Visit>
  void each_cell(const Buffer& buffer, Visit visit);
  void unblock(Event event);

  int rank_;
  PendingVerbs pending_;
  std::vector<Edge> edges_;
  std::uint32_t free_edge_ = 0;
  std::vector<std::uint32_t>
      ripe_;  // a stack instead of recursion: chains can be as long as a schedule
  bool unwinding_ = false;
  Cells cells_;
  std::size_t open_ = 0;
  bool recording_ = false;
  std::vector<double> posted_;
  std::vector<Span> timeline_;
};

}  // namespace foreduce
