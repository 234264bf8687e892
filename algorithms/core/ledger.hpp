// The bookkeeping that all backends share: which verbs are pending, what each of them waits for
// (`after`, joins, earlier verbs on the same elements), and when a rank may go on. A backend adds
// how bytes move and how long that takes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <vector>

#include "algorithms/core/transport.hpp"

namespace foreduce {

enum class Verb : std::uint8_t { send, recv, recv_reduce, join };
const char* name_of(Verb verb);

/// One posted verb of one rank. It fills a line of a processor's cache.
struct Pending {
  Buffer buffer;
  std::uint64_t tag = 0;
  int peer = -1;
  std::uint32_t blockers = 0;                    ///< events that must happen first
  std::array<std::uint32_t, 2> dependents = {};  ///< events that wait for it; 0: none
  std::uint32_t more_dependents = 0;             ///< head of a list in the ledger's pool; 0 ends it
  Verb verb = Verb::join;
  Op op = Op::sum;
  bool arrived = false;  ///< a receive whose bytes are here, set aside
  bool done = false;
};

/// Whether a ledger keeps what is over, until LedgerBackend::forget().
enum class DoneVerbs : std::uint8_t {
  kept,
  dropped  ///< a schedule that is posted as it runs takes memory for its open verbs only
};

/// The verbs of a rank by event, in blocks. [0] stands for "has happened".
class PendingVerbs {
 public:
  PendingVerbs(DoneVerbs done, std::pmr::memory_resource& memory) : done_(done), memory_(memory) {
    clear();
  }
  ~PendingVerbs() { free_blocks(); }
  PendingVerbs(const PendingVerbs&) = delete;
  PendingVerbs& operator=(const PendingVerbs&) = delete;

  Pending& operator[](std::uint32_t id) { return (*blocks_[id / kBlock].verbs)[id % kBlock]; }
  const Pending& operator[](std::uint32_t id) const {
    return (*blocks_[id / kBlock].verbs)[id % kBlock];
  }
  std::uint32_t size() const { return size_; }
  bool done(std::uint32_t id) const {
    const Block& block = blocks_[id / kBlock];
    return !block.verbs || (*block.verbs)[id % kBlock].done;
  }
  /// The new verb's number.
  std::uint32_t add(const Pending& verb);
  /// Marks it as done. References to verbs that are done are no longer valid, where these are
  /// dropped.
  void close(std::uint32_t id);
  void clear();

 private:
  static constexpr std::uint32_t kBlock = 64;
  /// Of a cache line: a verb that is a line of its own costs a simulation one wait for memory.
  static constexpr std::size_t kAlignment = 64;
  using Verbs = std::array<Pending, kBlock>;
  struct Block {
    Verbs* verbs = nullptr;  // null: all of them are done
    std::uint32_t closed = 0;
  };

  void free_verbs(Block& block);
  void free_blocks();

  std::vector<Block> blocks_;
  std::uint32_t size_ = 0;
  DoneVerbs done_;
  std::pmr::memory_resource& memory_;
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

/// A backend without its network: it knows when verbs may start, and derived classes move the
/// bytes.
class LedgerBackend : public Backend {
 public:
  /// Takes what grows with the schedule from `memory`, which must outlive it.
  explicit LedgerBackend(int rank, DoneVerbs done = DoneVerbs::kept,
                         std::pmr::memory_resource& memory = *std::pmr::get_default_resource())
      : rank_(rank), pending_(done, memory), edges_(&memory), cells_(&memory) {
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
  /// Bytes of an open receive that have arrived, where the backend counts them: for descriptions.
  virtual std::size_t arrived_bytes(Event) const { return 0; }

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
  /// Frees what is known of all elements. Before all verbs are done none may be posted.
  void drop_cells();
  /// `event` is asked for soon: lets memory send it ahead.
  void prefetch(Event event) const { __builtin_prefetch(&at(event), 1); }
  /// `event` happens soon: the same for what waits for it.
  void prefetch_dependents(Event event) const {
    for (const std::uint32_t dependent : at(event).dependents)
      if (dependent != 0) prefetch({dependent});
  }
  /// Marks `event` as happened and sets going whatever waited for it.
  void finish(Event event);

 private:
  /// A link of a list of events; 0 ends it.
  struct Edge {
    std::uint32_t event, next;
  };
  /// Elements [key, end) and the verbs that touched them last.
  struct Cell {
    std::size_t end = 0;
    Event writer;
    std::uint32_t readers = 0;  // a list of edges
  };
  using Cells = std::pmr::map<std::size_t, Cell>;

  Event open(Verb verb, int peer, std::uint64_t tag, Buffer buffer);
  Event post_write(Verb verb, int from, std::uint64_t tag, Buffer into, Op op);
  void depend(Event event, Event on);
  std::uint32_t new_edge(Edge edge);
  /// Gives the edge back; returns what it said.
  Edge take_edge(std::uint32_t edge);
  Cells::iterator first_from(std::size_t where);
  Cells::iterator cut(std::size_t where);
  template <class Visit>
  void each_cell(const Buffer& buffer, Visit visit);
  void unblock(Event event);

  // First what every event needs, in as few lines of a cache as can be.
  int rank_;
  bool unwinding_ = false, recording_ = false;
  PendingVerbs pending_;
  std::size_t open_ = 0;
  std::vector<std::uint32_t>
      ripe_;  // a stack instead of recursion: chains can be as long as a schedule
  std::pmr::vector<Edge> edges_;
  std::uint32_t free_edge_ = 0;
  Cells cells_;
  Cells::iterator recent_ = cells_.end();  // the last one that was visited, or the end
  std::vector<double> posted_;
  std::vector<Span> timeline_;
};

}  // namespace foreduce
