// Max-min fair sharing of links by flows, solved anew only where something changed. It knows
// nothing of messages, of time, or of SimGrid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace foreduce {

/// The max-min fair rates of flows over links, by progressive filling (Bertsekas and Gallager, Data
/// Networks, 2nd ed., section 6.5.2): all rates rise together, and a flow stops at its limit or
/// when one of its links is full. Exactly one allocation has this certificate: no link carries more
/// than its capacity, and every flow is at its limit or crosses a full link on which no flow is
/// faster. A change is therefore solved for the flows that its links hold up, with all other rates
/// as they are. Others whose certificate no longer holds join them, until all certificates hold.
///
/// Capacities, limits and rates have one unit, whichever it is. Equal calls give equal rates, bit
/// by bit.
class FairSharing {
 public:
  /// Names a flow from add() to remove(). Numbers are small, and are used again.
  using Flow = std::uint32_t;

  /// Links are numbered from 0; a capacity is positive.
  explicit FairSharing(std::span<const double> capacities);

  /// A flow that crosses `links`, a link named twice with twice its rate, and that has at most the
  /// rate `limit`: positive, and infinite for none. It has a rate from the next solve() on.
  Flow add(std::span<const std::size_t> links, double limit);
  /// Its share is free from the next solve() on.
  void remove(Flow flow);
  /// Makes the rates fair after all changes since the last call. Returns the flows whose rates
  /// changed by more than rounding, and each that was added, in an order that depends on the calls
  /// only. Valid until the next call.
  std::span<const Flow> solve();
  /// Its rate as of the last solve(); infinite for a flow with neither links nor limit.
  double rate(Flow flow) const { return flows_[flow].rate; }
  /// The full link that holds it up since then; none if it has what it would have alone.
  std::optional<std::size_t> bottleneck(Flow flow) const {
    const std::uint32_t link = flows_[flow].bottleneck;
    return link == kNone ? std::nullopt : std::optional<std::size_t>(link);
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  struct Crossing {
    std::uint32_t link, position;  // in the link's entries
  };
  struct Entry {
    Flow flow;
    std::uint32_t crossing;  // of the flow's
  };
  enum class State : std::uint8_t { unused, added, solved, removed };
  struct FlowState {
    std::vector<Crossing> crossings;
    double rate = 0, limit = 0;
    double cap = 0;  // by its limit and its narrowest link: what it has alone
    double found = 0;
    std::uint32_t bottleneck = kNone, found_bottleneck = kNone;  // none: it is at its cap
    std::uint64_t variable = 0;  // the solve() in which it was last among the variables
    std::uint32_t next_removed = kNone;
    State state = State::unused;
    bool reported = true, frozen = false;
  };
  struct LinkState {
    double capacity = 0;
    std::vector<Entry> entries;
    bool contended = false;      // its flows could fill it, were there no other links
    bool dirty = false;          // flows came or left
    Flow first_removed = kNone;  // of those whose first link it is
    // While filling:
    std::uint64_t round = 0;  // to which the following belong
    std::uint32_t open = 0, variables = 0;
    double residual = 0, fastest = 0;  // fastest of the variables
    double filled_at = 0;              // the rate of variables that it holds up
  };
  using Share = std::pair<double, std::uint32_t>;  // and the link

  Flow reuse_removed(std::span<const std::size_t> links, double limit);
  void mark_dirty(std::uint32_t link);
  void detach_removed();
  void add_variable(Flow flow);
  void collect_variables();
  void fill();
  void reset_link_states();
  void freeze(FlowState& flow, double rate, std::uint32_t bottleneck);
  double lowest_share();
  bool add_flows_whose_certificates_fail();
  void report();

  std::vector<FlowState> flows_;
  std::vector<LinkState> links_;
  std::vector<Flow> unused_, added_, removed_, variables_, changed_;
  std::vector<std::uint32_t> dirty_, touched_;
  std::vector<Share> shares_;                    // a heap, lowest first; shares only rise
  std::vector<std::pair<double, Flow>> by_cap_;  // a heap of the variables, lowest first
  std::size_t unfrozen_ = 0;                     // of the variables, while filling
  std::uint64_t solve_ = 0, round_ = 0;
};

}  // namespace foreduce
