#include "algorithms/core/ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <type_traits>

namespace foreduce {

const char* name_of(Verb verb) {
  switch (verb) {
    case Verb::send: return "send";
    case Verb::recv: return "recv";
    case Verb::recv_reduce: return "recv_reduce";
    case Verb::join: break;
  }
  return "join";
}

std::uint32_t PendingVerbs::add(const Pending& verb) {
  if (size_ % kBlock == 0)
    blocks_.push_back({::new (memory_.allocate(sizeof(Verbs), kAlignment)) Verbs});
  (*this)[size_] = verb;
  return size_++;
}

void PendingVerbs::close(std::uint32_t id) {
  Block& block = blocks_[id / kBlock];
  (*block.verbs)[id % kBlock].done = true;
  if (++block.closed == kBlock && done_ == DoneVerbs::dropped) free_verbs(block);
}

void PendingVerbs::free_verbs(Block& block) {
  static_assert(std::is_trivially_destructible_v<Verbs>);
  if (block.verbs) memory_.deallocate(block.verbs, sizeof(Verbs), kAlignment);
  block.verbs = nullptr;
}

void PendingVerbs::free_blocks() {
  for (Block& block : blocks_) free_verbs(block);
  blocks_.clear();
}

void PendingVerbs::clear() {
  free_blocks();
  size_ = 0;
  add({});  // "has happened" is never open, and keeps its block
}

Event LedgerBackend::open(Verb verb, int peer, std::uint64_t tag, Buffer buffer) {
  Pending entry;
  entry.buffer = buffer;
  entry.tag = tag;
  entry.peer = peer;
  entry.verb = verb;
  const Event event{pending_.add(entry)};
  ++open_;
  if (recording_) {
    posted_.resize(pending_.size());
    posted_[event.id] = do_now();
  }
  return event;
}

std::uint32_t LedgerBackend::new_edge(Edge edge) {
  if (free_edge_ == 0) {
    edges_.push_back(edge);
    return static_cast<std::uint32_t>(edges_.size() - 1);
  }
  const std::uint32_t free = free_edge_;
  free_edge_ = edges_[free].next;
  edges_[free] = edge;
  return free;
}

LedgerBackend::Edge LedgerBackend::take_edge(std::uint32_t edge) {
  const Edge said = edges_[edge];
  edges_[edge].next = free_edge_;
  free_edge_ = edge;
  return said;
}

void LedgerBackend::depend(Event event, Event on) {
  if (done(on)) return;
  Pending& verb = at(on);
  ++at(event).blockers;
  for (std::uint32_t& dependent : verb.dependents) {
    if (dependent != 0) continue;
    dependent = event.id;
    return;
  }
  verb.more_dependents = new_edge({event.id, verb.more_dependents});
}

/// The first cell that starts at `where` or behind it, found without a search if it is the last one
/// that was visited or the next: schedules go on from there.
LedgerBackend::Cells::iterator LedgerBackend::first_from(std::size_t where) {
  if (recent_ == cells_.end() || recent_->first > where) return cells_.lower_bound(where);
  if (recent_->first == where) return recent_;
  const auto next = std::next(recent_);
  return next == cells_.end() || next->first >= where ? next : cells_.lower_bound(where);
}

/// Makes `where` a border between cells; returns the cell that starts there.
LedgerBackend::Cells::iterator LedgerBackend::cut(std::size_t where) {
  auto next = first_from(where);
  if (next != cells_.end() && next->first == where) return next;
  if (next != cells_.begin()) {
    const auto before = std::prev(next);
    if (before->second.end > where) {
      Cell tail = before->second;
      tail.readers = 0;
      for (std::uint32_t edge = before->second.readers; edge != 0; edge = edges_[edge].next)
        tail.readers = new_edge({edges_[edge].event, tail.readers});
      before->second.end = where;
      return cells_.emplace_hint(next, where, std::move(tail));
    }
  }
  return next;
}

template <class Visit>
void LedgerBackend::each_cell(const Buffer& buffer, Visit visit) {
  if (buffer.count == 0) return;
  const std::size_t end = buffer.offset + buffer.count;
  if (recent_ != cells_.end() && recent_->first == buffer.offset && recent_->second.end == end)
    return visit(recent_->second);
  auto cell = cut(buffer.offset);
  for (std::size_t at = buffer.offset; at < end; at = cell->second.end, ++cell) {
    if (cell == cells_.end() || cell->first > at) {  // elements that nobody has touched yet
      const std::size_t until = cell == cells_.end() ? end : std::min(end, cell->first);
      cell = cells_.emplace_hint(cell, at, Cell{until, {}, {}});
    } else if (cell->second.end > end) {
      cut(end);
    }
    visit(cell->second);
    recent_ = cell;
  }
}

Event LedgerBackend::do_send(int to, std::uint64_t tag, Buffer data, Event after) {
  const Event event = open(Verb::send, to, tag, data);
  each_cell(data, [&](Cell& cell) { cell.readers = new_edge({event.id, cell.readers}); });
  depend(event, after);
  if (at(event).blockers == 0) send_ready(event);
  return event;
}

Event LedgerBackend::post_write(Verb verb, int from, std::uint64_t tag, Buffer into, Op op) {
  const Event event = open(verb, from, tag, into);
  at(event).op = op;
  Event last;  // neighbouring cells often share their last verb: one edge is enough
  each_cell(into, [&](Cell& cell) {
    const auto once = [&](Event on) {
      if (on != last) depend(event, on);
      last = on;
    };
    once(cell.writer);
    while (cell.readers != 0) {
      const Edge reader = take_edge(cell.readers);
      cell.readers = reader.next;
      once({reader.event});
    }
    cell.writer = event;
  });
  recv_posted(event);
  return event;
}

Event LedgerBackend::do_recv(int from, std::uint64_t tag, Buffer into) {
  return post_write(Verb::recv, from, tag, into, Op::sum);
}

Event LedgerBackend::do_recv_reduce(int from, std::uint64_t tag, Buffer into, Op op) {
  return post_write(Verb::recv_reduce, from, tag, into, op);
}

Event LedgerBackend::do_join(std::span<const Event> events) {
  Event only;  // joining one unfinished event is that event
  std::size_t unfinished = 0;
  for (const Event e : events)
    if (!done(e) && !(e == only)) {
      only = e;
      ++unfinished;
    }
  if (unfinished <= 1) return only;
  const Event event = open(Verb::join, -1, 0, {});
  for (const Event e : events) depend(event, e);
  return event;
}

void LedgerBackend::put(Event recv, const std::byte* bytes, std::size_t first, std::size_t count) {
  const Pending& p = at(recv);
  if (count == 0 || p.buffer.phantom()) return;
  const std::size_t element = size_of(p.buffer.type);
  if (p.verb == Verb::recv_reduce)
    reduce(p.op, p.buffer.type, p.buffer.data() + first * element, bytes, count);
  else std::memcpy(p.buffer.data() + first * element, bytes, count * element);
}

void LedgerBackend::forget() {
  if (open_ != 0)
    throw std::logic_error(
        fmt::format("rank {}: {} verbs are not done\n{}", rank_, open_, describe_pending()));
  pending_.clear();
  edges_.resize(1);
  free_edge_ = 0;
  cells_.clear();
  recent_ = cells_.end();
  posted_.clear();
}

void LedgerBackend::unblock(Event event) {
  switch (at(event).verb) {
    case Verb::send: send_ready(event); return;
    case Verb::join: finish(event); return;
    case Verb::recv:
    case Verb::recv_reduce:
      if (at(event).arrived) may_write(event);
      return;
  }
}

void LedgerBackend::drop_untouched_cells() {
  recent_ = cells_.end();
  for (auto at = cells_.begin(); at != cells_.end();) {
    Cell& cell = at->second;
    while (cell.readers != 0 && done({edges_[cell.readers].event}))
      cell.readers = take_edge(cell.readers).next;
    at = cell.readers == 0 && done(cell.writer) ? cells_.erase(at) : std::next(at);
  }
}

void LedgerBackend::drop_cells() {
  for (auto& [at, cell] : cells_)
    while (cell.readers != 0) cell.readers = take_edge(cell.readers).next;
  cells_.clear();
  recent_ = cells_.end();
}

void LedgerBackend::finish(Event event) {
  if (done(event))
    throw std::logic_error(fmt::format("rank {}: event {} happens twice", rank_, event.id));
  const Pending& entry = at(event);
  --open_;
  if (recording_ && entry.verb != Verb::join)
    timeline_.push_back({rank_, entry.verb, entry.peer, entry.tag, entry.buffer.bytes(),
                         posted_[event.id], do_now()});
  const auto unblocked = [this](std::uint32_t dependent) {
    if (--pending_[dependent].blockers == 0) ripe_.push_back(dependent);
  };
  for (const std::uint32_t dependent : entry.dependents)
    if (dependent != 0) unblocked(dependent);
  for (std::uint32_t edge = entry.more_dependents; edge != 0;) {
    const Edge link = take_edge(edge);
    unblocked(link.event);
    edge = link.next;
  }
  pending_.close(event.id);
  if (unwinding_) return;
  unwinding_ = true;
  while (!ripe_.empty()) {
    const Event next{ripe_.back()};
    ripe_.pop_back();
    unblock(next);
  }
  unwinding_ = false;
}

std::string LedgerBackend::describe_pending(std::size_t at_most) const {
  std::string text;
  std::size_t shown = 0;
  for (std::uint32_t id = 1; id < pending_.size(); ++id) {
    if (pending_.done(id) || pending_[id].verb == Verb::join) continue;
    const Pending& p = pending_[id];
    if (shown++ == at_most) {
      if (at_most > 1) text += fmt::format("  rank {}: … and more\n", rank_);
      break;
    }
    const std::size_t here = p.verb == Verb::send ? 0 : arrived_bytes({id});
    const std::string why =
        p.verb == Verb::send
            ? (p.blockers ? "waits for an earlier event" : "the peer has not received it")
        : here > 0 && here < p.buffer.bytes() ? fmt::format("{} of them have arrived", here)
        : p.arrived || here > 0               ? "arrived; its elements are still in use"
                                              : "nothing has arrived";
    text += fmt::format("  rank {}: {} {} rank {} ({}), {} bytes: {}\n", rank_, name_of(p.verb),
                        p.verb == Verb::send ? "to" : "from", p.peer, describe_tag(p.tag),
                        p.buffer.bytes(), why);
  }
  return text;
}

}  // namespace foreduce
