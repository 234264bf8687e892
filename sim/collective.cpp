#include "sim/collective.hpp"

#include <fmt/format.h>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <memory>
#include <queue>
#include <unordered_map>

#include "models/layout_of.hpp"
#include "sim/fifo.hpp"
#include "sim/fold.hpp"
#include "sim/isolate.hpp"

namespace foreduce {
namespace {

namespace s4u = simgrid::s4u;
namespace routing = simgrid::kernel::routing;
namespace timer = simgrid::kernel::timer;

constexpr double kNever = std::numeric_limits<double>::infinity();

/// The class that a link belongs to; of a way's classes the first in WayKind's order names the way.
WayKind way_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::network:
    case LinkKind::trunk: return WayKind::network;
    case LinkKind::nvlink: return WayKind::nvlink;
    case LinkKind::pcie:
    case LinkKind::interconnect: return WayKind::pcie;
    case LinkKind::memory: break;
  }
  return WayKind::host_memory;
}

class World;
struct Flight;

/// When a message came.
struct Arrival {
  double first_byte = 0;
  double readable = 0;  ///< from when a channel's threads read it: over NVLink its bytes as they come, from the network all at once
};

/// One simulated rank: an actor that posts its schedule and sleeps until what it waits for has happened.
class SimRank final : public LedgerBackend {
 public:
  SimRank(World& world, int rank, int slot) : LedgerBackend(rank), world_(world), slot_(slot) {}

  int slot() const { return slot_; }
  const Pending& pending(Event e) const { return at(e); }
  /// From the engine's side: `e` happens now.
  void happen(Event e) {
    finish(e);
    wake();
  }
  void arrive(Event recv, const Flight& flight);
  void set_actor(s4u::ActorPtr actor) { actor_ = std::move(actor); }

 private:
  void send_ready(Event send) override;
  void recv_posted(Event recv) override;
  void may_write(Event recv) override;
  void settle(Event recv, const std::byte* bytes, const Arrival& arrival);

  bool satisfied() const { return waiting_for_all_ ? all_done() : done(waiting_for_); }
  void wake() {
    if (asleep_ && satisfied()) {
      asleep_ = false;
      actor_->resume();
    }
  }
  void sleep() {
    while (!satisfied()) {
      asleep_ = true;
      s4u::this_actor::suspend();
    }
  }
  void do_wait(Event event) override {
    waiting_for_all_ = false;
    waiting_for_ = event;
    sleep();
  }
  void do_wait_all() override {
    waiting_for_all_ = true;
    sleep();
  }
  double do_now() const override { return s4u::Engine::get_clock(); }

  World& world_;
  int slot_;
  s4u::ActorPtr actor_;
  bool asleep_ = false, waiting_for_all_ = false;
  Event waiting_for_;
  std::unordered_map<std::uint32_t, std::pair<Arrival, std::vector<std::byte>>> aside_;  // arrived early, and its bytes
};

/// Every flow brings its links along: no table of all pairs.
class Routes final : public routing::NetZoneImpl {
 public:
  Routes(World& world, const std::string& name) : NetZoneImpl(name), world_(world) {}
  void get_local_route(const routing::NetPoint* from, const routing::NetPoint* to, routing::Route* into, double* latency) override;

 private:
  World& world_;
};

struct Key {
  int to = 0, from = 0, apart = 0;  // slots, and the renumbering between them
  int channel = 0;
  friend bool operator==(const Key&, const Key&) = default;
};
struct KeyHash {
  std::size_t operator()(const Key& k) const {
    std::uint64_t h = static_cast<std::uint64_t>(k.channel) * 0x9E3779B97F4A7C15u;
    h ^= (static_cast<std::uint64_t>(static_cast<std::uint32_t>(k.to)) << 32 | static_cast<std::uint32_t>(k.from)) + (h >> 29);
    h *= 0xBF58476D1CE4E5B9u;
    h ^= static_cast<std::uint64_t>(k.apart) + (h >> 32);
    return static_cast<std::size_t>(h * 0x94D049BB133111EBu >> 7);
  }
};

/// Half of a message: the side that came first waits for the other.
struct Half {
  SimRank* rank = nullptr;
  Event event;
};

struct Connection;

/// A message on its way.
struct Flight {
  Half send, recv;
  Connection* connection = nullptr;
  double first_byte = 0;  // when its front arrives
  bool between_nodes = false;
  double latency = 0;
  double wire = 0;         // bytes that the links carry
  double handling = 0;     // for which it occupies either end
  double gap = 0;          // for which its connection rests then
  double rests_until = 0;  // when its connection may begin the next one, if this has left by then
  bool next = false;       // has its connection and waits for the end of its rest
  std::size_t count = 0;
  std::vector<std::byte> bytes;    // what it carries: taken when the last byte has left, for then the sender may write again
  std::vector<std::size_t> links;  // that can bind it
  double rate_limit = 0;           // infinite: none
  double rate = 0, end = 0;        // while it has all its links to itself
  std::uint32_t turn = 0;          // tells an end that still holds from one that sharing has put off
  s4u::CommPtr comm;               // while it shares
};

/// What one rank sends another on one channel travels in order, one message's bytes after the other's, as on a queue pair.
/// Max-min sharing alone would let all segments of a pipeline crawl along together, and none would arrive early.
struct Connection {
  struct Waiting {
    std::uint64_t tag;
    Half half;
  };
  Fifo<Waiting> sends, receives;  // whose other half is still to come, in the order they came
  Fifo<Flight*> no_slot;          // messages that wait until an earlier one has landed
  Fifo<Flight*> queue;            // handled, behind the one whose bytes are leaving
  bool busy = false;              // bytes are leaving
  double rests_until = 0;         // after the last message
  double on_the_way = 0;          // have a slot, not yet landed
};

class World {
 public:
  /// `channels_are_rails`: channel c of the algorithm begins at rail c of a node.
  World(const Cluster& cluster, const Layout& layout, const Fold& fold, double element_bytes, bool channels_are_rails,
        const SimOptions& options)
      : cluster_(cluster),
        layout_(layout),
        fold_(fold),
        element_bytes_(element_bytes),
        channels_are_rails_(channels_are_rails),
        options_(options) {
    configure();
    if (options.sending.profile) take(options.sending);
    build();
  }

  void run(const std::function<void(Transport&)>& rank_function);
  CollectiveResult result() const;

  // Both sides tell a message by its two doubles, by what lies between them, and by the tag that it has for the simulated sender.
  void offer_send(SimRank& rank, Event send) {
    const Pending& p = rank.pending(send);
    meet({fold_.slot(p.peer), rank.slot(), fold_.apart(p.peer), connection_of(p.tag)}, p.tag, {&rank, send}, true);
  }
  void offer_recv(SimRank& rank, Event recv) {
    const Pending& p = rank.pending(recv);
    const int apart = fold_.inverse(fold_.apart(p.peer));
    const std::uint64_t tag = fold_.tag(p.tag, apart);
    meet({rank.slot(), fold_.slot(p.peer), apart, connection_of(tag)}, tag, {&rank, recv}, false);
  }
  /// Which of the connections between two ranks a message takes.
  int connection_of(std::uint64_t tag) const { return channel_of(tag) * 2 + (options_.sending.halves_apart && is_other_half(tag)); }
  /// The links of the flow that SimGrid is just starting.
  void route(routing::Route* into);
  double fold_end(const SimRank& rank, std::uint64_t tag, double bytes, const Arrival& arrival);
  void fold_until(double end, Half recv) { plan(ends_, {end, recv}); }
  double bytes_of(const Buffer& b) const { return static_cast<double>(b.count) * element_bytes_; }

 private:
  void configure();
  void build();
  void take(const Sending& sending);
  void meet(const Key& key, std::uint64_t tag, Half half, bool is_send);
  void start_soon(Flight* flight);
  void start(Flight* flight);
  void handled(Flight* flight);
  void after_rest(Flight* flight);
  /// When who handles this half of a message has handled the ones before it.
  double& handling_until(const Half& half) {
    const Pending& p = half.rank->pending(half.event);
    const int way = proxies_apart_ ? 2 * (options_.sending.halves_apart && is_other_half(p.tag)) + (p.verb == Verb::send) : 0;
    return handling_until_[static_cast<std::size_t>(half.rank->slot() * 4 + way)];
  }
  void begin(Flight* flight);
  void share(Flight* flight, double bytes);
  void sent(Flight* flight);

  /// What is going to happen, and when: a fold is over, a flow that shares nothing ends (exactly then); a send is over, a message
  /// has landed (with its moment).
  struct Due {
    double at = 0;
    Half half;
    Flight* flight = nullptr;
    std::uint32_t turn = 0;
    std::uint64_t order = 0;  // among those of its rank
    friend bool operator<(const Due& x, const Due& y) {
      return std::pair(x.half.rank->slot(), x.order) < std::pair(y.half.rank->slot(), y.order);
    }
  };
  struct Later {
    bool operator()(const Due& x, const Due& y) const { return x.at != y.at ? x.at > y.at : y < x; }
  };
  using Agenda = std::priority_queue<Due, std::vector<Due>, Later>;
  void plan(Agenda& agenda, Due due);
  void wake_at(double when);
  void play();

  const Cluster& cluster_;
  const Layout& layout_;
  const Fold& fold_;
  double element_bytes_;
  bool channels_are_rails_;
  SimOptions options_;

  std::unique_ptr<s4u::Engine> engine_;
  std::vector<std::unique_ptr<SimRank>> ranks_;
  s4u::Host *here_ = nullptr, *there_ = nullptr;  // all that SimGrid need know of hosts: every flow has links of its own
  const Flight* starting_ = nullptr;
  struct LinkState {
    s4u::Link* shared = nullptr;  // null: it never binds
    double width = kNever;        // also where it never binds
    int flows = 0;
    Flight* alone = nullptr;  // the one flow, if it shares none of its links
  };
  std::vector<LinkState> links_;
  std::map<double, std::vector<s4u::Link*>> limits_;  // by bytes a second, beside each link
  std::vector<double> link_bytes_;                    // of simulated flows
  Route scratch_;

  struct FoldUnit {
    double rate = 0, busy_until = 0;
  };
  std::vector<FoldUnit> fold_units_;
  std::vector<std::size_t> fold_unit_of_;
  double channel_rate_ = kNever;                                // payload
  std::unordered_map<std::size_t, double> channel_busy_until_;  // by rank and channel, with its half of the data

  /// What the profile and the protocol make of a message.
  struct Cost {
    double latency = -1;  // instead of the way's own; negative: as the topology says
    double hop = 0, overhead = 0, per_byte = 0, gap = 0, gap_from = 0;
    bool replaces = false;  // the machine's own cost of a message
  };
  std::array<Cost, kWayKinds> costs_;
  double per_payload_ = 1, in_switch_cost_ = 1, in_switch_sync_ = 0, rate_limit_ = kNever, slots_ = kNever;
  std::vector<double> handling_until_;  // of each rank: it handles one message after the other
  bool proxies_apart_ = false;          // what enters a node, what leaves it, and either half of a tree do so at GPUs of their own

  std::unordered_map<Key, Connection, KeyHash> connections_;
  std::deque<Flight> flights_;
  std::vector<Flight*> free_flights_, ready_;
  Agenda begins_, arrivals_, ends_, moments_;
  std::vector<Due> moment_;
  timer::Timer* timer_ = nullptr;
  double wake_ = kNever;
  bool playing_ = false;
  std::uint64_t messages_ = 0;
  double end_ = 0;
  std::string failure_;
};

void Routes::get_local_route(const routing::NetPoint*, const routing::NetPoint*, routing::Route* into, double*) {
  world_.route(into);  // the latency follows the bytes, see sent()
}

// ------------------------------------------------------------------ ranks

void SimRank::send_ready(Event send) { world_.offer_send(*this, send); }
void SimRank::recv_posted(Event recv) { world_.offer_recv(*this, recv); }

/// The elements are free: put the bytes there, now or when the device has folded them.
void SimRank::settle(Event recv, const std::byte* bytes, const Arrival& arrival) {
  const Pending& p = at(recv);
  put(recv, bytes);
  if (p.verb == Verb::recv || in_switch_of(p.tag) == InSwitch::reduce) return happen(recv);
  const double end = world_.fold_end(*this, p.tag, world_.bytes_of(p.buffer), arrival);
  if (end <= s4u::Engine::get_clock()) return happen(recv);
  world_.fold_until(end, {this, recv});
}

void SimRank::arrive(Event recv, const Flight& flight) {
  Pending& p = at(recv);
  if (flight.count != p.buffer.count)
    throw TransportError(fmt::format("rank {}: {} elements arrive from rank {} where {} are expected ({})", rank(), flight.count,
                                     p.peer, p.buffer.count, describe_tag(p.tag)));
  const Arrival arrival{flight.first_byte, flight.between_nodes ? s4u::Engine::get_clock() : flight.first_byte};
  if (p.blockers == 0) return settle(recv, flight.bytes.data(), arrival);
  p.arrived = true;
  aside_.emplace(recv.id, std::pair(arrival, flight.bytes));
}

void SimRank::may_write(Event recv) {
  const auto node = aside_.extract(recv.id);
  settle(recv, node.mapped().second.data(), node.mapped().first);
}

// ------------------------------------------------------------------ the world

/// SimGrid counts whole units of payload; ours are 1/4096 of a byte, for averaged parts need not be whole bytes.
constexpr double kGrain = 4096;

constexpr EngineSetting kSettings[] = {
    {"network/model", "CM02", "max-min fair flows; no TCP slow start"},
    {"network/optim", "Lazy", "only what changed is computed anew"},
    {"network/latency-factor", "1", "SimGrid's default for TCP is 13.01"},
    {"network/bandwidth-factor", "1", "SimGrid's default for TCP is 0.97"},
    {"network/weight-S", "0", "no share lost to small latencies"},
    {"network/TCP-gamma", "0", "no window limit"},
    {"network/crosstraffic", "0", "no acknowledgements on the way back"},
    {"network/loopback-lat", "0", "no loopback is used"},
    {"surf/precision", "1e-14", "seconds; the default of 1e-9 merges events of short messages"},
    {"maxmin/precision", "1e-9", "relative; the default of 1e-5 lets equal flows differ"},
};

void World::configure() {
  static char name[] = "foreduce", quiet[] = "--log=root.app:file:/dev/null";
  char* arguments[] = {name, quiet, nullptr};
  int count = 2;
  engine_ = std::make_unique<s4u::Engine>(&count, arguments);
  for (const EngineSetting& s : kSettings) s4u::Engine::set_config(std::string(s.name) + ":" + s.value);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  s4u::Engine::set_config("contexts/factory:thread");  // the sanitizers do not know SimGrid's own stacks
#endif
  s4u::Engine::set_config("contexts/stack-size:256");  // KiB; a schedule is posted without recursion
}

void World::build() {
  auto* zone = new Routes(*this, "cluster");  // SimGrid owns it
  auto* face = zone->get_iface();
  for (int r = 0; r < layout_.size(); ++r) {
    if (!fold_.simulates(r)) continue;
    const int slot = static_cast<int>(ranks_.size());
    ranks_.push_back(std::make_unique<SimRank>(*this, r, slot));
    if (options_.record_timeline) ranks_.back()->record_timeline();
    if (slot != fold_.slot(r)) throw std::logic_error(fmt::format("rank {} has slot {}, not {}", r, fold_.slot(r), slot));
  }
  handling_until_.assign(4 * ranks_.size(), 0);
  here_ = face->create_host("here", 1e9)->seal();
  there_ = face->create_host("there", 1e9)->seal();
  links_.resize(fold_.links());
  link_bytes_.resize(fold_.links());
  // What binds was found with the links' full width.
  const Profile* profile = options_.sending.profile.get();
  const bool skip = options_.skip_implied_links && (!profile || profile->ideal());
  const auto efficiency = [&](std::size_t id) {
    return profile ? value_or(profile->of(way_of(cluster_.link_kind(id))).efficiency, 1.0) : 1.0;
  };
  const std::vector<bool> binding = skip ? cluster_.binding_links() : std::vector<bool>(cluster_.link_count(), true);
  for (std::size_t id = 0; id < links_.size(); ++id) {
    LinkState& link = links_[fold_.link(id)];
    const double width = cluster_.link_bandwidth(id).value * efficiency(id) / fold_.flows(id);
    if (link.shared || !std::isfinite(width)) continue;
    link.width = width;
    if (!binding[id]) continue;
    link = {face->create_link(fmt::format("l{}", id), width * kGrain)->seal(), width};
  }
  // What one flow may have at most is a link that none of those that cross it shares: SimGrid 3.32 forgets set_rate() of a
  // communication between hosts. One beside each link where a flow may begin, so that flows that share nothing else need not be
  // solved together.
  std::set<double> limits{rate_limit_};
  for (int n = 0; n < cluster_.nodes(); ++n)
    if (const double l = cluster_.flow_limit(n).value; l > 0) limits.insert(std::min(l, rate_limit_));
  for (const double limit : limits)
    if (limit < kNever) {
      auto& beside = limits_[limit];
      for (std::size_t id = 0; id < links_.size(); ++id)
        beside.push_back(links_[id].shared ? face->create_link(fmt::format("limit{}-{}", limits_.size(), id), limit * kGrain)
                                                 ->set_sharing_policy(s4u::Link::SharingPolicy::FATPIPE)
                                                 ->seal()
                                           : nullptr);
    }
  face->seal();

  // One fold unit a GPU; the servers of a socket share its cores and memory.
  std::map<std::pair<int, int>, std::size_t> sockets;
  for (const auto& rank : ranks_) {
    const Place place = place_of(layout_, rank->rank());
    const NodeGraph& node = cluster_.node(place.node);
    if (!place.device.server) {
      fold_unit_of_.push_back(fold_units_.size());
      const auto own = node.machine().gpu->fold_rate;
      fold_units_.push_back({(profile ? value_or(profile->fold_rate, own) : own).value, 0});
      continue;
    }
    const auto [at, fresh] = sockets.try_emplace({place.node, node.socket_of_rail(place.device.index)}, fold_units_.size());
    if (fresh) fold_units_.push_back({node.machine().host->fold_rate.value, 0});
    fold_unit_of_.push_back(at->second);
  }

  s4u::Activity::on_completion_cb([this](const s4u::Activity& activity) {
    if (auto* flight = activity.get_data<Flight>()) sent(flight);
  });
  s4u::Engine::on_deadlock_cb([this] {
    if (!failure_.empty()) throw TransportError(failure_);  // a rank failed, and the others wait for it
    failure_ = "deadlock: no rank can go on\n";
    int shown = 0;
    for (const auto& rank : ranks_)
      if (!rank->all_done() && shown++ < 16) failure_ += rank->describe_pending(4);
    if (shown > 16) failure_ += fmt::format("  … and {} ranks more\n", shown - 16);
    throw TransportError(failure_);
  });
}

/// Workers of the node that has fewest.
int smallest_node(const Layout& layout) {
  if (const int each = layout.per_node(); each > 0) return each;
  std::map<int, int> workers;
  for (int r = 0; r < layout.workers; ++r) ++workers[layout.at(r).node];
  return std::min_element(workers.begin(), workers.end(), [](const auto& a, const auto& b) { return a.second < b.second; })->second;
}

void World::take(const Sending& sending) {
  const Profile& profile = *sending.profile;
  const Protocol* protocol = sending.protocol.empty() ? nullptr : profile.protocol(sending.protocol);
  if (!sending.protocol.empty() && !protocol)
    throw input_error(fmt::format("profile {} has no protocol '{}'", profile.name, sending.protocol));
  // What enters a node, what leaves it, either half of a tree, and each of the library's channels that one message here stands for,
  // do so at GPUs of their own, if there are enough; else those there are share it all.
  const double channels = std::max({1.0, sending.channels_each, sending.messages_each}), ways = sending.halves_apart ? 4 : 2,
               gpus = smallest_node(layout_);
  proxies_apart_ = profile.of(WayKind::network).proxy_rate && gpus >= ways;
  const double proxies = proxies_apart_ ? std::min(channels, std::floor(gpus / ways)) : gpus;
  for (std::size_t k = 0; k < kWayKinds; ++k) {
    const LinkClass& links = profile.links[k];
    Cost& cost = costs_[k];
    if (links.latency) cost.latency = links.latency->value.value;
    const bool network = k == static_cast<std::size_t>(WayKind::network);
    Seconds overhead = value_or(links.overhead, Seconds{});
    if (protocol && network) overhead += value_or(protocol->overhead, Seconds{});
    cost.overhead = overhead.value * sending.messages_each;
    cost.replaces = links.overhead.has_value();
    if (links.proxy_rate) cost.per_byte = 1 / (links.proxy_rate->value.value * proxies);
    if (protocol && network) {
      cost.gap = value_or(protocol->gap, Seconds{}).value;
      cost.gap_from = value_or(protocol->gap_from, Bytes{}).value * sending.messages_each;
    }
    if (protocol) cost.hop = value_or(network ? protocol->net_hop : protocol->hop, Seconds{}).value;
  }
  if (profile.in_switch) in_switch_cost_ = value_or(profile.of(WayKind::nvlink).efficiency, 1.0) / profile.in_switch->value;
  // A GPU's link carries a chunk's message for each other GPU of its node, and the chunk is held up once.
  if (profile.in_switch_sync) in_switch_sync_ = profile.in_switch_sync->value.value / std::max(1, layout_.per_node() - 1);
  if (!protocol) return;
  per_payload_ = 1 / value_or(protocol->efficiency, 1.0);
  if (protocol->channel_rate) {
    channel_rate_ = protocol->channel_rate->value.value * sending.channels_each;
    rate_limit_ = channel_rate_ * per_payload_;
  }
  if (sending.slots > 0) slots_ = sending.slots;  // each of the channels that a message stands for has its own
}

void World::route(routing::Route* into) {
  for (const std::size_t id : starting_->links) into->link_list_.push_back(links_[id].shared->get_impl());
  if (starting_->rate_limit < kNever)
    into->link_list_.push_back(limits_.at(starting_->rate_limit)[starting_->links.front()]->get_impl());
}

void World::meet(const Key& key, std::uint64_t tag, Half half, bool is_send) {
  Connection& connection = connections_[key];
  Connection::Waiting other{};
  if (!(is_send ? connection.receives : connection.sends).take(other, [tag](const Connection::Waiting& w) {
        return w.tag == tag;
      })) {
    (is_send ? connection.sends : connection.receives).push({tag, half});
    return;
  }
  Flight* flight = nullptr;
  if (free_flights_.empty()) {
    flight = &flights_.emplace_back();
  } else {
    flight = free_flights_.back();
    free_flights_.pop_back();
  }
  flight->send = is_send ? half : other.half;
  flight->recv = is_send ? other.half : half;
  flight->connection = &connection;
  if (connection.on_the_way >= slots_) {
    connection.no_slot.push(flight);
    return;
  }
  ++connection.on_the_way;
  start_soon(flight);
}

/// SimGrid reports the end only of what its own main thread has started; a timer that is due at once gets us there.
void World::start_soon(Flight* flight) {
  if (s4u::Actor::is_maestro()) return start(flight);
  ready_.push_back(flight);
  wake_at(s4u::Engine::get_clock());
}

/// The sender takes the message in hand.
void World::start(Flight* flight) {
  const Pending& send = flight->send.rank->pending(flight->send.event);
  Place target = place_of(layout_, send.peer);
  if (fold_.one_node())
    target.node = std::min(target.node, 1);  // any other node: they are all alike, and its links are node 0's own
  cluster_.route(place_of(layout_, flight->send.rank->rank()), target, scratch_);
  ++messages_;
  flight->wire = bytes_of(send.buffer) * per_payload_;
  flight->latency = scratch_.latency.value;
  flight->rate_limit = std::min(scratch_.rate_limit.value > 0 ? scratch_.rate_limit.value : kNever, rate_limit_);
  if (const InSwitch in_switch = in_switch_of(send.tag); in_switch != InSwitch::no && scratch_.links.size() == 2) {
    // The sum, or the one that is copied, is accounted to the message between neighbours; the others use one link only.
    const int from = layout_.at(flight->send.rank->rank()).local, to = layout_.at(send.peer).local;
    flight->wire = flight->wire * in_switch_cost_ + in_switch_sync_ * links_[scratch_.links.front()].width;
    if ((from + 1) % layout_.per_node() != to) scratch_.links.erase(scratch_.links.begin() + (in_switch == InSwitch::reduce));
  }
  WayKind way = WayKind::host_memory;
  for (const std::size_t id : scratch_.links) way = std::min(way, way_of(cluster_.link_kind(id)));
  const Cost& cost = costs_[static_cast<std::size_t>(way)];
  flight->gap = flight->wire >= cost.gap_from ? cost.gap : 0;
  flight->handling = cost.overhead + flight->wire * cost.per_byte;
  // What a message costs the NICs beyond its bytes is a time, told as the bytes that would pass meanwhile.
  if (!cost.replaces && scratch_.overhead.value > 0) {
    double rate = flight->rate_limit;
    for (const std::size_t id : scratch_.links) rate = std::min(rate, links_[fold_.link(id)].width);
    if (rate < kNever) flight->wire += scratch_.overhead.value * rate;
    else flight->latency += scratch_.overhead.value;
  }
  flight->links.clear();
  for (const std::size_t id : scratch_.links) {
    const std::size_t link = fold_.link(id);
    link_bytes_[link] += flight->wire;
    if (links_[link].shared) flight->links.push_back(link);
  }
  flight->between_nodes = way == WayKind::network;
  if (cost.latency >= 0) flight->latency = cost.latency + scratch_.spine_latency.value;
  flight->latency += cost.hop;
  flight->next = false;
  if (flight->handling == 0) return handled(flight);
  double& until = handling_until(flight->send);
  until = std::max(until, s4u::Engine::get_clock()) + flight->handling;
  plan(begins_, {until, flight->send, flight});
}

void World::handled(Flight* flight) {
  if (flight->next) return begin(flight);
  if (flight->connection->busy) return flight->connection->queue.push(flight);
  flight->connection->busy = true;
  after_rest(flight);
}

void World::after_rest(Flight* flight) {
  if (flight->connection->rests_until <= s4u::Engine::get_clock()) return begin(flight);
  flight->next = true;
  plan(begins_, {flight->connection->rests_until, flight->send, flight});
}

/// The first byte leaves.
void World::begin(Flight* flight) {
  const double now = s4u::Engine::get_clock();
  flight->first_byte = now + flight->latency;
  flight->rests_until = now + flight->gap;
  if (flight->wire == 0) return sent(flight);
  flight->rate = flight->rate_limit;
  bool alone = true;
  for (const std::size_t id : flight->links) flight->rate = std::min(flight->rate, links_[id].width);
  // The rest counts from when the bytes could have left: whom others hold up has rested meanwhile. A message that stands for
  // several, on as many connections, rests when its own share has left.
  flight->rests_until += flight->wire / flight->rate / options_.sending.messages_each;
  for (const std::size_t id : flight->links) {
    LinkState& link = links_[id];
    alone = alone && link.flows == 0;
    ++link.flows;
    const double left = link.alone ? (link.alone->end - now) * link.alone->rate : 0;
    if (left * kGrain >= 1) share(link.alone, left);  // else it ends at this very moment
  }
  if (!alone || (options_.solve_all && !flight->links.empty())) return share(flight, flight->wire);
  for (const std::size_t id : flight->links) links_[id].alone = flight;
  flight->end = now + flight->wire / flight->rate;
  plan(ends_, {flight->end, flight->send, flight, flight->turn});
}

/// From now on SimGrid says how fast a flow is; until another joins it on a link, the narrowest link does, and nothing needs
/// solving.
void World::share(Flight* flight, double bytes) {
  ++flight->turn;
  for (const std::size_t id : flight->links)
    if (links_[id].alone == flight) links_[id].alone = nullptr;
  starting_ = flight;
  flight->comm = s4u::Comm::sendto_init();
  flight->comm->set_data(flight);
  // The second end of a sized message starts it.
  flight->comm->set_payload_size(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(bytes * kGrain))));
  flight->comm->set_source(here_)->set_destination(there_);
}

/// The last byte has left: the sender may go on, the next message of the connection may follow, and this one arrives a
/// latency later.
void World::sent(Flight* flight) {
  const s4u::CommPtr alive = std::move(flight->comm);  // SimGrid may still be in its completion signal
  ++flight->turn;
  for (const std::size_t id : flight->links) {
    --links_[id].flows;
    links_[id].alone = nullptr;
  }
  const Pending& send = flight->send.rank->pending(flight->send.event);
  flight->count = send.buffer.count;
  if (!send.buffer.phantom()) flight->bytes.assign(send.buffer.data(), send.buffer.data() + send.buffer.bytes());
  Connection& connection = *flight->connection;
  const double now = s4u::Engine::get_clock();
  connection.rests_until = flight->gap > 0 ? flight->rests_until : now;
  if (connection.queue.empty()) connection.busy = false;
  else after_rest(connection.queue.pop());
  plan(moments_, {now, flight->send});
  plan(flight->handling > 0 ? arrivals_ : moments_, {now + flight->latency, flight->recv, flight});
}

// What happens at one moment happens in an order that does not depend on who tells it, else ranks that are alike would take turns
// differently, and one could not stand for all: a rank's own rail first, then the next ones; on a channel as the rank posted it.
// A moment is longer than what rounding makes of one time on two ways.
double end_of_moment(double begin) { return begin + 1e-14 * std::max(1.0, begin); }

void World::plan(Agenda& agenda, Due due) {
  const auto channels = std::max<std::size_t>(1, layout_.channels.size());
  const auto channel = static_cast<std::size_t>(channel_of(due.half.rank->pending(due.half.event).tag));
  const auto rail = channels_are_rails_ ? static_cast<std::size_t>(layout_.at(due.half.rank->rank()).rail) : 0;
  due.order = ((channel + channels - rail % channels) % channels) << 32 | due.half.event.id;
  agenda.push(due);
  if (!playing_) wake_at(&agenda == &moments_ ? end_of_moment(due.at) : due.at);
}

/// One timer for all: SimGrid's own queue costs an allocation and a turn of its main loop each.
void World::wake_at(double when) {
  if (when >= wake_) return;
  if (timer_) timer_->remove();
  wake_ = when;
  timer_ = timer::Timer::set(when, [this] {
    timer_ = nullptr;
    wake_ = kNever;
    play();
  });
}

/// Everything that is due now.
void World::play() {
  const double now = s4u::Engine::get_clock();
  playing_ = true;
  while (!begins_.empty() && begins_.top().at <= now) {
    Flight* flight = begins_.top().flight;
    begins_.pop();
    handled(flight);
  }
  while (!arrivals_.empty() && arrivals_.top().at <= now) {  // the receiver handles it when it has handled what came before
    const Due due = arrivals_.top();
    arrivals_.pop();
    double& until = handling_until(due.half);
    until = std::max(until, now) + due.flight->handling;
    plan(moments_, {until, due.half, due.flight});
  }
  while (!ends_.empty() && ends_.top().at <= now) {
    const Due due = ends_.top();
    ends_.pop();
    if (!due.flight) due.half.rank->happen(due.half.event);
    else if (due.turn == due.flight->turn) sent(due.flight);
  }
  if (!moments_.empty() && end_of_moment(moments_.top().at) <= now) {
    moment_.clear();
    for (; !moments_.empty() && moments_.top().at <= now; moments_.pop()) moment_.push_back(moments_.top());
    std::sort(moment_.begin(), moment_.end());
    for (const Due& due : moment_) {
      if (!due.flight) {
        due.half.rank->happen(due.half.event);
        continue;
      }
      Connection& connection = *due.flight->connection;
      if (connection.no_slot.empty()) --connection.on_the_way;
      else start(connection.no_slot.pop());  // it takes the slot
      due.half.rank->arrive(due.half.event, *due.flight);
      due.flight->bytes.clear();
      free_flights_.push_back(due.flight);
    }
  }
  std::vector<Flight*> starting;
  starting.swap(ready_);
  for (Flight* flight : starting) start(flight);
  playing_ = false;
  if (!begins_.empty()) wake_at(begins_.top().at);
  if (!arrivals_.empty()) wake_at(arrivals_.top().at);
  if (!ends_.empty()) wake_at(ends_.top().at);
  if (!moments_.empty()) wake_at(end_of_moment(moments_.top().at));
}

/// A fluid queue: a device folds at its rate what arrives, in order of arrival; all but the last piece of a message can
/// be folded while the rest is on its way. A channel's threads do so at the channel's rate, one sender after the other: where a
/// tree's node has two children, its channel takes twice as long.
double World::fold_end(const SimRank& rank, std::uint64_t tag, double bytes, const Arrival& arrival) {
  FoldUnit& unit = fold_units_[fold_unit_of_[static_cast<std::size_t>(rank.slot())]];
  const double now = s4u::Engine::get_clock();
  const double piece = std::min(bytes, options_.fold_piece.value);
  const double earliest = bytes > piece ? arrival.first_byte : now;
  unit.busy_until = std::max(unit.busy_until, earliest) + bytes / unit.rate;
  double end = std::max(now + piece / unit.rate, unit.busy_until);
  if (channel_rate_ < kNever) {
    double& busy = channel_busy_until_[static_cast<std::size_t>(rank.slot()) << 16 | static_cast<std::size_t>(connection_of(tag))];
    busy = std::max(busy, arrival.readable) + bytes / channel_rate_;
    end = std::max(end, busy);
  }
  return end;
}

void World::run(const std::function<void(Transport&)>& rank_function) {
  for (auto& rank : ranks_) {
    SimRank* me = rank.get();
    me->set_actor(s4u::Actor::create(fmt::format("r{}", me->rank()), here_, [this, me, &rank_function] {
      try {
        const Profile* profile = options_.sending.profile.get();
        if (profile && profile->launch) s4u::this_actor::sleep_for(profile->launch->value.value);
        Transport transport(*me, layout_, me->rank());
        rank_function(transport);
        transport.wait_all();
        end_ = std::max(end_, s4u::Engine::get_clock());
      } catch (const std::exception& e) {  // must not unwind through SimGrid's stacks
        if (failure_.empty()) failure_ = e.what();
      }
    }));
  }
  engine_->run();
  if (!failure_.empty()) throw TransportError(failure_);
}

CollectiveResult World::result() const {
  CollectiveResult r;
  r.time = Seconds{end_};
  r.messages = messages_;
  r.folded = fold_.any();
  for (const auto& rank : ranks_) {
    r.traffic.push_back(rank->traffic());
    r.timeline.insert(r.timeline.end(), rank->timeline().begin(), rank->timeline().end());
  }
  std::map<std::string, LinkLoad> classes;
  for (std::size_t id = 0; id < link_bytes_.size(); ++id) {
    const double bytes = link_bytes_[fold_.link(id)] * fold_.flows(id);
    if (bytes == 0) continue;
    const BytesPerSecond width = cluster_.link_bandwidth(id);
    const double utilisation = end_ > 0 ? bytes / (width.value * end_) : 0;
    LinkLoad& load = classes[cluster_.link_class(id)];
    if (utilisation < load.utilisation) continue;
    load = {cluster_.link_class(id), cluster_.link_kind(id), width, bytes, utilisation};
  }
  for (auto& [name, load] : classes) r.loads.push_back(std::move(load));
  std::stable_sort(r.loads.begin(), r.loads.end(),
                   [](const LinkLoad& a, const LinkLoad& b) { return a.utilisation > b.utilisation + 1e-9; });
  r.bottleneck = r.loads.empty() || r.loads[0].utilisation < 0.5 ? "latency" : r.loads[0].link;
  return r;
}

}  // namespace

std::span<const EngineSetting> engine_settings() { return kSettings; }

CollectiveResult simulate_here(const Cluster& cluster, const Algorithm& algorithm, const Plan& wanted, std::size_t count, Type type,
                               Op op, const SimOptions& options, std::span<const Buffer> data) {
  const auto begin = std::chrono::steady_clock::now();
  const Layout layout = layout_of(cluster);
  const Plan plan = completed(algorithm, wanted, layout, count * size_of(type));
  if (const auto why = refusal(algorithm, layout, plan))
    throw input_error(fmt::format("{} cannot run here: {}", algorithm.name, *why));

  // Equal parts are what makes channels and nodes alike. A count that does not divide is spread evenly over one that does, which
  // moves each part by less than an element.
  const bool may_fold = options.may_fold && data.empty();
  const Fold fold = may_fold ? Fold(cluster, layout, algorithm, plan, count) : Fold(cluster, layout);
  std::size_t elements = count;
  double element_bytes = static_cast<double>(size_of(type));
  if (fold.any() && count > 0) {
    elements = (count + fold.unit() - 1) / fold.unit() * fold.unit();
    element_bytes *= static_cast<double>(count) / static_cast<double>(elements);
  }

  World world(cluster, layout, fold, element_bytes, !algorithm.gpus_alike, options);
  world.run([&](Transport& t) {
    const Buffer buffer = data.empty() ? Buffer{nullptr, 0, elements, type} : data[static_cast<std::size_t>(t.rank())];
    algorithm.run(t, buffer, op, plan, {});
  });
  CollectiveResult result = world.result();
  result.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace foreduce
