#include "scenarios/sweep/step_collectives.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "input/counted.hpp"

namespace foreduce {
namespace {

/// The first nodes of a cluster of equal ones.
ClusterCase first_nodes(const ClusterCase& c, int nodes, Clusters& clusters) {
  if (nodes >= c.nodes) return c;
  if (nodes == 1) return *clusters.one_node(c);
  ClusterCase some = c;
  some.nodes = nodes;
  some.cluster = std::make_shared<Cluster>(
      std::vector(static_cast<std::size_t>(nodes),
                  std::shared_ptr<const Machine>(c.cluster, &c.cluster->node(0).machine())),
      c.cluster->fabric());
  return some;
}

/// A group, and on how many nodes it is simulated.
struct Simulated {
  RankGroup group;
  int nodes = 1;
};

/// On the nodes that one of the groups spans a collective takes as long as on all: on one switch
/// the others' groups meet it nowhere. Groups of one place on every few nodes are as such groups on
/// neighbouring nodes. All nodes where a spine is shared, or where groups do not fill nodes.
Simulated simulated(RankGroup group, const ClusterCase& c, int per_node) {
  if (c.cluster->leaves() > 0) return {group, c.nodes};
  if (group.stride % per_node == 0) return {{group.ranks, per_node}, group.ranks};
  const int span = group.ranks * group.stride, nodes = (span + per_node - 1) / per_node;
  return {group, nodes * per_node % span == 0 ? nodes : c.nodes};
}

/// Two stages of a pipeline send to each other whatever is beside them: where pairs do not divide
/// the GPUs, as with three stages, on the nodes of one pair, or among neighbours on a node.
Simulated pairs_that_divide(Simulated s, int per_node) {
  const auto divides = [&] { return s.nodes * per_node % (s.group.ranks * s.group.stride) == 0; };
  if (s.group.ranks != 2 || divides()) return s;
  if (s.group.stride % per_node == 0) s.nodes = 2 * s.group.stride / per_node;
  else if (s.nodes == 1) s.group.stride = 1;
  return s;
}

/// Up to as many nodes that are not alike are simulated as they are: no node stands for another
/// one.
constexpr int kMostUnequalNodes = 64;

/// All nodes as the one with the least bandwidth: a ring is as slow as its slowest node.
ClusterCase as_weakest(const ClusterCase& c) {
  if (c.cluster->homogeneous()) return c;
  if (!c.as_weakest)
    throw input_error(
        "sharding among nodes with slow links that others do not have is not modelled",
        "describe all nodes as the slowest");
  ClusterCase alike = c;
  alike.instance = c.weakest;
  alike.cluster = c.as_weakest;
  return alike;
}

/// The collective that stands for an algorithm that lacks one: its other phase (Thakur et al.,
/// IJHPCA 19(1), 2005, section 4: an all-gather by doubling or Bruck, a reduce-scatter by halving),
/// else the usual one.
std::string counterpart(std::string_view algorithm, Collective collective) {
  constexpr std::array kByHalves = {"recursive-doubling", "recursive-halving", "halving-doubling",
                                    "bruck"};
  const bool by_halves =
      std::find(kByHalves.begin(), kByHalves.end(), algorithm) != kByHalves.end();
  if (by_halves)
    for (const char* name : kByHalves)
      if (find_algorithm(name, collective)) return name;
  return std::string(usual_algorithm(collective).name);
}

/// The same method for a stream's collective. What NCCL is forced to holds for those that it has it
/// for. Algorithms that have none of their own exchange tokens pairwise, move other activations
/// along a ring, and leave what they lack to counterpart().
Method method_for(const Method& asked, Stream kind) {
  const Collective collective = collective_of(kind);
  Method method = asked;
  method.collective = collective;
  if (asked.kind == MethodKind::ours && !find_algorithm(asked.algorithm->name, collective)) {
    method =
        method_named(carries_activations(kind) ? std::string(usual_algorithm(collective).name)
                                               : counterpart(asked.algorithm->name, collective),
                     "", collective);
    method.profile = asked.profile;
    method.protocol = asked.protocol;
    return method;
  }
  if (asked.kind == MethodKind::ours || asked.kind == MethodKind::smddp) {
    const bool ours = asked.kind == MethodKind::ours;  // whose name() may have a protocol
    const Method named =
        method_named(ours ? std::string(asked.algorithm->name) : asked.name(), "", collective);
    method.algorithm = named.algorithm;
    method.inner = find_algorithm(asked.inner, collective) ? asked.inner : named.inner;
  } else if (asked.algorithm) method.algorithm = find_algorithm(asked.algorithm->name, collective);
  return method;
}

/// Throws InputError where nothing of a step goes by the algorithm that was asked for, or by the
/// inner one.
void require_some_use(const Method& asked, const std::vector<CollectiveUse>& uses) {
  if (asked.kind != MethodKind::ours) return;
  std::set<Collective> kinds;
  for (const CollectiveUse& use : uses)
    if (!carries_activations(use.kind)) kinds.insert(collective_of(use.kind));
  std::vector<std::string_view> titles;
  for (const Collective c : kinds) titles.push_back(title_of(c));
  const auto any_has = [&](std::string_view name) {
    return kinds.empty() || std::any_of(kinds.begin(), kinds.end(), [&](Collective c) {
             return find_algorithm(name, c) != nullptr;
           });
  };
  const auto accepted = [&] {
    std::set<std::string_view> names;
    for (const Collective c : kinds)
      for (const Algorithm* a : algorithms(c)) names.insert(a->name);
    return fmt::format("accepted: {}", fmt::join(names, ", "));
  };
  if (!any_has(asked.algorithm->name))
    throw key_error("allreduce.algorithm",
                    fmt::format("{} has none of what this step needs: {}", asked.algorithm->name,
                                fmt::join(titles, ", ")),
                    accepted());
  if (!asked.inner.empty() && asked.algorithm->takes_inner && !any_has(asked.inner))
    throw key_error("allreduce.inner",
                    fmt::format("{} has none of what this step needs: {}", asked.inner,
                                fmt::join(titles, ", ")),
                    accepted());
}

/// The candidates that can run among the groups' ranks. Throws InputError where none can.
std::vector<Candidate> among(const RankGroups& groups, std::vector<Candidate> all) {
  std::vector<Candidate> some;
  std::string why;
  for (Candidate& c : all) {
    c.groups = groups;
    const std::string reason = c.unsupported();
    if (reason.empty()) some.push_back(std::move(c));
    else why = reason;
  }
  if (some.empty()) throw input_error(fmt::format("in groups of {}: {}", groups.size, why));
  return some;
}

/// On how many nodes two kinds are tried beside each other: which links they share does not depend
/// on more. At least two members of each group are there.
int nodes_for_pair(const RankGroup& a, const RankGroup& b, int per_node, int nodes) {
  constexpr int kEnough = 4;
  const auto needed = [per_node](const RankGroup& g) {
    return (2 * g.stride + per_node - 1) / per_node;
  };
  return std::min(nodes, std::max({kEnough, needed(a), needed(b)}));
}

/// Whether two kinds of collectives never run beside each other in a way that counts: in one queue
/// they take turns, and computing waits for one of activations before it comes to another. What a
/// pipeline's stages send passes while they wait.
bool never_at_once(Stream a, Stream b, const ShardingPlan& plan) {
  return a == Stream::pipeline || b == Stream::pipeline || queue_of(a, plan) == queue_of(b, plan) ||
         (computing_waits(a, plan) && computing_waits(b, plan));
}

/// The group as it is among so many GPUs; nothing where it does not divide them.
std::optional<RankGroups> within(const RankGroup& g, int gpus) {
  const int ranks = std::min(g.ranks, gpus / g.stride);
  if (ranks < 2 || gpus % (ranks * g.stride) != 0) return std::nullopt;
  return ranks == gpus ? RankGroups{} : RankGroups{ranks, g.stride};
}

}  // namespace

Collective collective_of(Stream kind) {
  switch (kind) {
    case Stream::all_gather:
    case Stream::expert_all_gather:
    case Stream::context_all_gather: return Collective::all_gather;
    case Stream::reduce_scatter:
    case Stream::expert_reduce_scatter:
    case Stream::context_reduce_scatter: return Collective::reduce_scatter;
    case Stream::exchange: return Collective::all_to_all;
    case Stream::pipeline: return Collective::broadcast;
    case Stream::all_reduce:
    case Stream::expert_all_reduce:
    case Stream::tensor:
    case Stream::compute: break;
  }
  return Collective::all_reduce;
}

StepCollectives::StepCollectives(const ShardedStepInput& step, const Method& method, Types types,
                                 const ClusterCase& cluster, const SweepContext& context)
    : plan_(step.plan), types_(types), per_node_(cluster.cluster->gpus() / cluster.nodes) {
  const bool alike = cluster.cluster->homogeneous(),
             as_many_gpus = alike || have_as_many_gpus(*cluster.cluster),
             as_they_are = !alike && (cluster.nodes <= kMostUnequalNodes || !as_many_gpus);
  const ClusterCase uniform = as_they_are && !cluster.as_weakest ? cluster : as_weakest(cluster);
  if (!alike && !as_they_are) nodes_as_ = cluster.weakest;
  std::map<int, ClusterCase> parts;
  std::set<std::size_t> all;
  const std::vector<CollectiveUse> uses = collectives_of(step);
  require_some_use(method, uses);
  for (const CollectiveUse& use : uses) {
    const RankGroup asked_group = group_of(use.kind, plan_);
    // Of nodes that are not alike pairs that do not divide them are on two of the weakest.
    const bool odd_pair = asked_group.ranks == 2 && uniform.cluster->homogeneous() &&
                          cluster.cluster->gpus() % (2 * asked_group.stride) != 0,
               all_nodes = as_they_are && !odd_pair;
    const auto [group, nodes] =
        all_nodes ? Simulated{asked_group, cluster.nodes}
                  : pairs_that_divide(simulated(asked_group, uniform, per_node_), per_node_);
    if (nodes > cluster.nodes)
      throw input_error(fmt::format("groups of {} GPUs reach beyond {}", group.ranks * group.stride,
                                    counted(cluster.nodes, "node")));
    if (!parts.contains(nodes))
      parts.emplace(nodes, all_nodes ? cluster : first_nodes(uniform, nodes, context.clusters));
    const int gpus = all_nodes ? cluster.cluster->gpus() : nodes * per_node_;
    if (gpus % (group.ranks * group.stride) != 0)
      throw input_error(
          fmt::format("groups of {} GPUs do not divide {}", group.ranks * group.stride, gpus));
    const RankGroups groups =
        group.ranks == gpus ? RankGroups{} : RankGroups{group.ranks, group.stride};
    Asked& one = asked_.emplace_back(Asked{use.kind, use.elements, {}, {}});
    one.candidates =
        among(groups, candidates_of(method_for(method, use.kind), parts.at(nodes), context));
    one.numbers = ask_each(context.batch, one.candidates, use.elements, type_of(use.kind));
    all.insert(one.numbers.begin(), one.numbers.end());
  }
  // Beside each other only groups of equal nodes are simulated.
  if (as_many_gpus && uniform.cluster->homogeneous()) ask_pairs(method, uniform, context);
  for (const Pair& p : pairs_) all.insert({p.both, p.alone_first, p.alone_second});
  questions_.assign(all.begin(), all.end());
}

/// The largest of either kind beside each other, with as much for each rank as there is.
void StepCollectives::ask_pairs(const Method& method, const ClusterCase& cluster,
                                const SweepContext& context) {
  Batch& batch = context.batch;
  std::map<Stream, std::size_t> largest;
  for (const Asked& a : asked_) largest[a.kind] = std::max(largest[a.kind], a.elements);
  for (const auto& [first, first_elements] : largest)
    for (const auto& [second, second_elements] : largest) {
      if (first >= second || never_at_once(first, second, plan_)) continue;
      const RankGroup of[] = {group_of(first, plan_), group_of(second, plan_)};
      const int nodes = nodes_for_pair(of[0], of[1], per_node_, cluster.nodes);
      const ClusterCase some = first_nodes(cluster, nodes, context.clusters);
      const auto question = [&](Stream kind, const RankGroup& group) -> std::optional<Question> {
        const auto groups = within(group, nodes * per_node_);
        if (!groups) return std::nullopt;
        const int ranks = groups->whole() ? nodes * per_node_ : groups->size;
        const std::size_t elements = largest.at(kind) / static_cast<std::size_t>(group.ranks) *
                                     static_cast<std::size_t>(ranks);
        return among(*groups, candidates_of(method_for(method, kind), some, context))
            .front()
            .question(elements, type_of(kind));
      };
      const auto a = question(first, of[0]), b = question(second, of[1]);
      if (!a || !b) continue;
      const ConcurrentPair t = concurrent_pair(*a, *b);
      pairs_.push_back({first, second, batch.ask(t.both), batch.ask(t.first), batch.ask(t.second)});
    }
}

/// Of a collective while one of the other kind runs too, relative to running alone. Where that is
/// not simulated, those that use the same links share them equally.
double StepCollectives::speed_beside(const Batch& batch, Stream kind, Stream other) const {
  for (const Pair& p : pairs_) {
    const bool straight = p.first == kind && p.second == other;
    if (!straight && (p.first != other || p.second != kind)) continue;
    const auto speeds = concurrent_speeds(batch[p.both].result, batch[p.alone_first].result.time,
                                          batch[p.alone_second].result.time);
    return speeds[straight ? 0 : 1];
  }
  const bool meet =
      group_of(kind, plan_).leaves_node(per_node_) == group_of(other, plan_).leaves_node(per_node_);
  return meet ? 0.5 : 1;
}

Interval StepCollectives::Asked::interval(std::size_t candidate, Type type,
                                          const Outcome& outcome) const {
  return candidates[candidate].interval(Bytes{static_cast<double>(elements * size_of(type))},
                                        outcome);
}

std::vector<std::vector<std::size_t>> StepCollectives::alternatives() const {
  std::vector<std::vector<std::size_t>> all;
  for (const Asked& one : asked_) all.push_back(one.numbers);
  for (const Pair& p : pairs_)
    for (const std::size_t n : {p.both, p.alone_first, p.alone_second}) all.push_back({n});
  return all;
}

Type StepCollectives::type_of(Stream kind) const {
  return carries_gradients(kind) ? types_.gradients : types_.parameters;
}

const StepCollectives::Asked& StepCollectives::asked(Stream kind, std::size_t elements) const {
  return *std::find_if(asked_.begin(), asked_.end(),
                       [&](const Asked& a) { return a.kind == kind && a.elements == elements; });
}

std::size_t StepCollectives::answered_by(const Batch& batch, Stream kind,
                                         std::size_t elements) const {
  const auto& numbers = asked(kind, elements).numbers;
  return numbers[batch.fastest(numbers)];
}

CollectiveCosts StepCollectives::costs(const Batch& batch, const PerStream& compute_shares,
                                       Bound bound) const {
  CollectiveCosts costs;
  costs.alone = [this, &batch, bound](Stream kind, std::size_t elements) {
    const Asked& one = asked(kind, elements);
    const std::size_t best = batch.fastest(one.numbers);
    const Outcome& outcome = batch[one.numbers[best]];
    const Seconds time = outcome.result.time;
    if (bound == Bound::usual || time.value <= 0) return time;
    const Interval i = one.interval(best, type_of(kind), outcome);
    return bound == Bound::low ? i.low : i.high;
  };
  costs.speeds.compute = compute_shares;
  // Each of several others delays it as if it were the only one.
  costs.speeds.collective = [this, &batch](Stream kind, StreamSet running) {
    double slower = 1;
    for (std::size_t i = 0; i < kStreams; ++i) {
      const auto other = static_cast<Stream>(i);
      if (running[i] && other != kind && other != Stream::compute)
        slower += 1 / speed_beside(batch, kind, other) - 1;
    }
    return 1 / slower;
  };
  return costs;
}

PerStream StepCollectives::compute_shares(
    const std::function<double(const Candidate&)>& share) const {
  PerStream shares = for_all_streams(1);
  for (const Asked& one : asked_) {
    double& least = shares[static_cast<std::size_t>(one.kind)];
    if (!computing_waits(one.kind, plan_))
      for (const Candidate& c : one.candidates) least = std::min(least, share(c));
  }
  return shares;
}

Interval StepCollectives::interval(const Batch& batch) const {
  Interval of_longest;
  double longest = -1;
  for (const Asked& one : asked_) {
    const std::size_t best = batch.fastest(one.numbers);
    const Outcome& outcome = batch[one.numbers[best]];
    if (outcome.result.time.value <= longest) continue;
    longest = outcome.result.time.value;
    of_longest = one.interval(best, type_of(one.kind), outcome);
  }
  return of_longest;
}

}  // namespace foreduce
