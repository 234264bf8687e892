#include "sim/fair_sharing.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace foreduce {
namespace {

/// Relative: how far a certificate may be from exact. Well above what rounding makes of a sum over
/// some hundred flows.
constexpr double kTolerance = 1e-12;
/// Relative: a rate that moved by less than this has not changed. Smaller than kTolerance, so that
/// what is kept does not use up the tolerance of the certificates.
constexpr double kRateRounding = 1e-14;
/// So many flows that just left a link are compared with one that comes.
constexpr int kCompared = 8;

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

}  // namespace

FairSharing::FairSharing(std::span<const double> capacities) {
  links_.resize(capacities.size());
  for (std::size_t id = 0; id < capacities.size(); ++id) links_[id].capacity = capacities[id];
}

FairSharing::Flow FairSharing::add(std::span<const std::size_t> links, double limit) {
  Flow id = reuse_removed(links, limit);
  if (id != kNone) return id;
  if (unused_.empty()) {
    id = static_cast<Flow>(flows_.size());
    flows_.emplace_back();
  } else {
    id = unused_.back();
    unused_.pop_back();
  }
  FlowState& flow = flows_[id];
  flow.limit = flow.cap = limit;
  flow.crossings.clear();
  flow.bottleneck = kNone;
  flow.state = State::added;
  flow.reported = false;
  for (const std::size_t link : links) flow.cap = std::min(flow.cap, links_[link].capacity);
  for (const std::size_t number : links) {
    const auto link = static_cast<std::uint32_t>(number);
    auto& entries = links_[link].entries;
    entries.push_back({id, static_cast<std::uint32_t>(flow.crossings.size())});
    flow.crossings.push_back({link, static_cast<std::uint32_t>(entries.size() - 1)});
    mark_dirty(link);
  }
  added_.push_back(id);
  return id;
}

/// The flow that just left the same way is continued: where messages follow each other on a
/// connection, nothing is to be solved. None if there is no such flow.
FairSharing::Flow FairSharing::reuse_removed(std::span<const std::size_t> links, double limit) {
  if (links.empty()) return kNone;
  Flow* from = &links_[links.front()].first_removed;
  for (int compared = 0; *from != kNone && compared < kCompared; ++compared) {
    const Flow id = *from;
    FlowState& flow = flows_[id];
    if (flow.limit == limit &&
        std::ranges::equal(flow.crossings, links, {}, [](const Crossing& c) { return c.link; })) {
      *from = flow.next_removed;
      flow.state = flow.reported ? State::solved : State::added;
      flow.reported = false;
      added_.push_back(id);
      return id;
    }
    from = &flow.next_removed;
  }
  return kNone;
}

void FairSharing::remove(Flow id) {
  FlowState& flow = flows_[id];
  flow.state = State::removed;
  removed_.push_back(id);
  if (flow.crossings.empty()) return;
  Flow& first = links_[flow.crossings.front().link].first_removed;
  flow.next_removed = first;
  first = id;
}

void FairSharing::mark_dirty(std::uint32_t id) {
  if (links_[id].dirty) return;
  links_[id].dirty = true;
  dirty_.push_back(id);
}

/// Removed flows that none has continued leave their links.
void FairSharing::detach_removed() {
  for (const Flow id : removed_) {
    FlowState& flow = flows_[id];
    if (flow.state != State::removed) continue;
    if (!flow.crossings.empty()) links_[flow.crossings.front().link].first_removed = kNone;
    for (const auto [number, position] : flow.crossings) {
      LinkState& link = links_[number];
      const Entry last = link.entries.back();
      link.entries[position] = last;
      flows_[last.flow].crossings[last.crossing].position = position;
      link.entries.pop_back();
      mark_dirty(number);
    }
    flow.state = State::unused;
    flow.reported = true;
    unused_.push_back(id);
  }
  removed_.clear();
}

void FairSharing::add_variable(Flow id) {
  FlowState& flow = flows_[id];
  if (flow.variable == solve_) return;
  flow.variable = solve_;
  variables_.push_back(id);
}

/// The flows that came, and those that links hold up which changed. Whether others on these links
/// must move as well, their certificates say.
void FairSharing::collect_variables() {
  for (const std::uint32_t id : dirty_) {
    LinkState& link = links_[id];
    link.dirty = false;
    double caps = 0;
    for (const Entry& entry : link.entries) caps += flows_[entry.flow].cap;
    const bool was_contended = link.contended;
    link.contended = caps > link.capacity * (1 + kTolerance);
    if (!was_contended && !link.contended) continue;
    for (const Entry& entry : link.entries)
      if (flows_[entry.flow].bottleneck == id) add_variable(entry.flow);
  }
  dirty_.clear();
  for (const Flow id : added_)
    if (flows_[id].state == State::added) add_variable(id);
}

std::span<const FairSharing::Flow> FairSharing::solve() {
  changed_.clear();
  if (added_.empty() && removed_.empty()) return changed_;
  ++solve_;
  variables_.clear();
  detach_removed();
  collect_variables();
  while (!variables_.empty()) {
    fill();
    if (!add_flows_whose_certificates_fail()) break;
  }
  report();
  return changed_;
}

/// What the variables find on each contended link of theirs.
void FairSharing::reset_link_states() {
  ++round_;
  touched_.clear();
  shares_.clear();
  for (const Flow id : variables_) {
    FlowState& flow = flows_[id];
    flow.frozen = false;
    for (const Crossing& crossing : flow.crossings) {
      LinkState& link = links_[crossing.link];
      if (!link.contended) continue;
      if (link.round != round_) {
        link.round = round_;
        link.open = link.variables = 0;
        link.residual = link.capacity;
        link.fastest = 0;
        link.filled_at = kUnlimited;
        touched_.push_back(crossing.link);
      }
      ++link.open;
      ++link.variables;
    }
  }
  for (const std::uint32_t id : touched_) {
    LinkState& link = links_[id];
    if (link.variables < link.entries.size()) {
      for (const Entry& entry : link.entries)
        if (const FlowState& flow = flows_[entry.flow]; flow.variable != solve_)
          link.residual -= flow.rate;
      link.residual = std::max(0.0, link.residual);
    }
    shares_.emplace_back(link.residual / link.open, id);
  }
  std::ranges::make_heap(shares_, std::greater{});
}

/// Progressive filling of the variables.
void FairSharing::fill() {
  reset_link_states();
  by_cap_.clear();
  for (const Flow id : variables_) by_cap_.emplace_back(flows_[id].cap, id);
  std::ranges::make_heap(by_cap_, std::greater{});
  for (unfrozen_ = variables_.size(); unfrozen_ > 0;) {
    const double level = lowest_share();
    if (by_cap_.front().first > level) {
      const std::uint32_t link = shares_.front().second;
      links_[link].filled_at = level;
      for (const Entry& entry : links_[link].entries)
        if (FlowState& flow = flows_[entry.flow]; flow.variable == solve_ && !flow.frozen)
          freeze(flow, level, link);
      continue;
    }
    const auto [cap, id] = by_cap_.front();
    std::ranges::pop_heap(by_cap_, std::greater{});
    by_cap_.pop_back();
    if (!flows_[id].frozen) freeze(flows_[id], cap, kNone);
  }
}

/// At which rate the next link is full, which then is the first of the heap; infinite if none will
/// be.
double FairSharing::lowest_share() {
  while (!shares_.empty()) {
    const auto [known, id] = shares_.front();
    const LinkState& link = links_[id];
    const double share = link.open > 0 ? link.residual / link.open : kUnlimited;
    if (share <= known) return share;
    std::ranges::pop_heap(shares_, std::greater{});
    if (link.open == 0) {
      shares_.pop_back();
    } else {
      shares_.back().first = share;
      std::ranges::push_heap(shares_, std::greater{});
    }
  }
  return kUnlimited;
}

void FairSharing::freeze(FlowState& flow, double rate, std::uint32_t bottleneck) {
  --unfrozen_;
  flow.frozen = true;
  flow.found = rate;
  flow.found_bottleneck = bottleneck;
  for (const Crossing& crossing : flow.crossings) {
    LinkState& link = links_[crossing.link];
    if (!link.contended) continue;
    --link.open;
    link.residual = std::max(0.0, link.residual - rate);
    link.fastest = std::max(link.fastest, rate);
  }
}

/// The variables have certificates among themselves. A fixed flow joins them if it is faster than a
/// variable on the link that holds that one up, or if the link that holds it up itself is no longer
/// full or has a faster variable. False if there is none.
bool FairSharing::add_flows_whose_certificates_fail() {
  const std::size_t before = variables_.size();
  for (const std::uint32_t id : touched_) {
    const LinkState& link = links_[id];
    if (link.variables == link.entries.size()) continue;
    const bool full = link.residual <= kTolerance * link.capacity;
    for (const Entry& entry : link.entries) {
      const FlowState& flow = flows_[entry.flow];
      if (flow.variable == solve_) continue;
      if (flow.rate > link.filled_at * (1 + kTolerance) ||
          (flow.bottleneck == id && (!full || link.fastest > flow.rate * (1 + kTolerance))))
        add_variable(entry.flow);
    }
  }
  return variables_.size() > before;
}

void FairSharing::report() {
  for (const Flow id : variables_) {
    FlowState& flow = flows_[id];
    flow.bottleneck = flow.found_bottleneck;
    const bool moved = std::abs(flow.found - flow.rate) > kRateRounding * flow.found;
    if (flow.state == State::solved && !moved) continue;
    flow.state = State::solved;
    flow.rate = flow.found;
    flow.reported = true;
    changed_.push_back(id);
  }
  for (const Flow id : added_) {
    FlowState& flow = flows_[id];
    if (flow.reported) continue;
    flow.reported = true;
    changed_.push_back(id);
  }
  added_.clear();
}

}  // namespace foreduce
