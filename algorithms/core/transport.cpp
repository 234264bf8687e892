#include "algorithms/core/transport.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace foreduce {

struct Transport::Subset {
  Layout layout;
  std::vector<int> global_rank;  // of each member
};

Transport::Transport(Backend& backend, const Layout& layout, int rank)
    : backend_(&backend), layout_(&layout), rank_(rank) {}

int Transport::checked_peer(int peer) const {
  if (peer < 0 || peer >= size() || peer == rank_)
    throw std::logic_error(fmt::format("rank {} of {}: no peer {}", rank_, size(), peer));
  return subset_ ? subset_->global_rank[static_cast<std::size_t>(peer)] : peer;
}

Event Transport::send(int to, Tag tag, Buffer data, Event after) {
  backend_->traffic_.messages_sent += 1;
  backend_->traffic_.elements_sent += data.count;
  return backend_->do_send(checked_peer(to), pack(tag, group_), data, after);
}

Event Transport::recv(int from, Tag tag, Buffer into) {
  return backend_->do_recv(checked_peer(from), pack(tag, group_), into);
}

Event Transport::recv_reduce(int from, Tag tag, Buffer into, Op op) {
  return backend_->do_recv_reduce(checked_peer(from), pack(tag, group_), into, op);
}

Event Transport::join(std::span<const Event> events) { return backend_->do_join(events); }
void Transport::wait(Event event) { backend_->do_wait(event); }
void Transport::wait_all() { backend_->do_wait_all(); }
double Transport::now() const { return backend_->do_now(); }

Transport Transport::subset(std::span<const int> ranks, int group) const {
  auto members = std::make_shared<Subset>();
  members->layout = layout_->subset(ranks);
  Transport made;
  made.backend_ = backend_;
  made.rank_ = -1;
  made.group_ = group_beyond(group);
  for (const int r : ranks) {
    if (r == rank_) made.rank_ = static_cast<int>(members->global_rank.size());
    members->global_rank.push_back(subset_ ? subset_->global_rank[static_cast<std::size_t>(r)] : r);
  }
  if (made.rank_ < 0)
    throw std::logic_error(fmt::format("rank {} is not in its own subset", rank_));
  made.layout_ = &members->layout;
  made.subset_ = std::move(members);
  return made;
}

Transport Transport::in_group(int group) const {
  Transport made = *this;
  made.group_ = group_beyond(group);
  return made;
}

int Transport::group_beyond(int group) const {
  const bool second = group_ >= kSecondCollective || group >= kSecondCollective;
  if (group_ + group >= (second ? 2 : 1) * kSecondCollective)
    throw std::invalid_argument(
        fmt::format("this schedule runs in {} groups of ranks at a time or more: it takes fewer "
                    "segments, or no --full-pipelines",
                    kSecondCollective));
  return group_ + group;
}

}  // namespace foreduce
