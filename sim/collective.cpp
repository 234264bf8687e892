#include "sim/collective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "models/rank_layout.hpp"
#include "sim/expected_cost.hpp"
#include "sim/simulator.hpp"
#include "sim/symmetry.hpp"

namespace foreduce {

void rank_loads(CollectiveResult& r) {
  std::stable_sort(r.loads.begin(), r.loads.end(), [](const LinkLoad& a, const LinkLoad& b) {
    return a.utilisation > b.utilisation + 1e-9;
  });
  r.bottleneck = r.loads.empty() || r.loads[0].utilisation < 0.5 ? "latency" : r.loads[0].link;
}

Plan plan_on(const Layout& layout, Plan plan) {
  plan.channels = std::min(plan.channels, static_cast<int>(layout.channels.size()));
  return plan;
}

Layout layout_of(const CollectiveCall& call) {
  const Layout all = rank_layout(call.cluster);
  return all.subset(call.groups);
}

namespace {

/// One of the collectives that run at once, with all that its run takes.
struct Part {
  const Algorithm* algorithm = nullptr;
  Plan plan;
  std::size_t count = 0;
  RankGroups groups;
  int group = 0;  // of its tags

  Event run(Transport& t, Buffer data, Op op) const {
    if (groups.whole() && group == 0) return algorithm->run(t, data, op, plan, {});
    if (!groups.whole() && t.layout().at(t.rank()).server) return {};  // groups are of workers
    std::vector<int> ranks(static_cast<std::size_t>(t.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    Transport mine = groups.whole() ? t.subset(ranks, group) : t.subset(groups.of(t.rank()), group);
    return algorithm->run(mine, data, op, plan_on(mine.layout(), plan), {});
  }
};

/// Completes the plan, and checks that the algorithm can run there.
Part part_of(const Algorithm& algorithm, const Plan& plan, std::size_t count,
             const RankGroups& groups, const Layout& all, std::size_t element) {
  if (!groups.whole() && all.workers % (groups.size * groups.stride) != 0)
    throw input_error(fmt::format("groups of {} GPUs, {} apart, do not divide {}", groups.size,
                                  groups.stride, all.workers));
  const Layout layout = all.subset(groups);
  Part part{&algorithm, with_defaults(algorithm, plan, layout, count * element), count, groups, 0};
  if (const auto why = unsupported_reason(algorithm, layout, part.plan))
    throw input_error(fmt::format("{} cannot run here: {}", algorithm.name, *why));
  return part;
}

/// Whether any node may take another's place: groups fill nodes evenly, or go across all of them.
bool nodes_alike(const RankGroups& groups, const Layout& all) {
  const int each = all.per_node(), span = groups.size * groups.stride;
  if (groups.whole()) return true;
  return each > 0 &&
         ((span <= each && each % span == 0) || (span == all.workers && groups.stride % each == 0));
}

/// Whether the groups are the GPUs of one place on each node.
bool across_nodes(const RankGroups& groups, const Layout& all) {
  return !groups.whole() && groups.stride == all.per_node();
}

/// Whether groups remain groups where all GPUs of each node change places in turn: they have the
/// same places of every node, or evenly distant ones of whole nodes.
bool keeps_groups(const RankGroups& groups, const Layout& all) {
  const int each = all.per_node(), span = groups.size * groups.stride;
  return groups.whole() || each == 0 || groups.stride % each == 0 ||
         (each % groups.stride == 0 && span % each == 0);
}

/// The algorithm with the symmetry that it has in these groups. A group for each place in the node
/// does the same along its own rail, so GPUs may change places; that leaves less to simulate than a
/// tree's mirror.
Algorithm in_groups(const Part& part, const Layout& all) {
  Algorithm alike = *part.algorithm;
  if (!nodes_alike(part.groups, all)) alike.symmetry = nullptr;
  // Pairs of ranks beyond a power of two are pairs within a group.
  if (!part.groups.whole() && symmetry_on(alike, all, part.plan) == Symmetry::none)
    alike.symmetry = nullptr;
  // A rotation of a node's GPUs would tear other groups apart.
  if (!keeps_groups(part.groups, all)) alike.gpus_alike = alike.channels_alike = false;
  if (!across_nodes(part.groups, all)) return alike;
  const Symmetry nodes = symmetry_on(alike, all, part.plan);
  if (nodes == Symmetry::translation || nodes == Symmetry::exclusive_or) return alike;
  alike.gpus_alike = true;
  return alike;
}

/// The symmetry that both have.
Algorithm both(const Part& a, const Part& b, const Layout& all) {
  const Algorithm first = in_groups(a, all), second = in_groups(b, all);
  const auto claimed = [](const Algorithm& algorithm, const Plan& plan) {
    return algorithm.symmetry ? algorithm.symmetry(plan) : Symmetry::none;
  };
  Algorithm shared = first;
  if (claimed(first, a.plan) != claimed(second, b.plan) || first.takes_inner != second.takes_inner)
    shared.symmetry = nullptr;
  shared.channels_alike =
      first.channels_alike && second.channels_alike && a.plan.channels == b.plan.channels;
  shared.gpus_alike = first.gpus_alike && second.gpus_alike;
  return shared;
}

/// When the last verb of either collective ended.
void note_ends(CollectiveResult& result) {
  double first = 0, second = 0;
  for (const Span& span : result.timeline) {
    if (span.verb == Verb::join) continue;
    double& end = group_of(span.tag) >= kSecondCollective ? second : first;
    end = std::max(end, span.ended);
  }
  result.first = Seconds{first};
  result.second = Seconds{second};
  result.timeline.clear();
}

}  // namespace

SymmetryReduction symmetry_of(const CollectiveCall& call, const Plan& plan, const Layout& layout) {
  return {call.cluster,
          layout,
          in_groups({&call.algorithm, plan, call.count, call.groups, 0}, layout),
          plan,
          call.count,
          across_nodes(call.groups, layout) ? GpuPart::whole : GpuPart::chunk};
}

CollectiveResult simulate_here(const CollectiveCall& asked, const SimOptions& asked_options,
                               std::span<const Buffer> data) {
  const auto begin = std::chrono::steady_clock::now();
  const Cluster& cluster = asked.cluster;
  const Type type = asked.type;
  const Layout layout = rank_layout(cluster);
  std::vector<Part> parts{
      part_of(asked.algorithm, asked.plan, asked.count, asked.groups, layout, size_of(type))};
  if (!asked.groups.whole()) parts[0].group = 1;
  SimOptions options = asked_options;
  options.groups[0] = asked.groups;
  Algorithm symmetric = in_groups(parts[0], layout);
  bool ours = is_ours(asked.algorithm, asked.plan);
  if (asked.beside) {
    const Beside& b = *asked.beside;
    ours = ours && is_ours(*b.algorithm, b.plan);
    parts.push_back(part_of(*b.algorithm, b.plan, b.count, b.groups, layout, size_of(type)));
    parts[1].group = kSecondCollective;
    options.groups[1] = b.groups;
    symmetric = both(parts[0], parts[1], layout);
    options.record_timeline = true;
  }
  if (ours) options.stack_guard = StackGuard::none;

  // Equal chunks are what makes channels and nodes alike. A count that does not divide is spread
  // evenly over one that does, which moves each chunk by less than an element.
  const bool use_symmetry = options.use_symmetry && data.empty();
  const bool whole = std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
    return across_nodes(part.groups, layout);
  });
  const SymmetryReduction symmetry =
      use_symmetry ? SymmetryReduction(cluster, layout, symmetric, parts[0].plan, asked.count,
                                       whole ? GpuPart::whole : GpuPart::chunk)
                   : SymmetryReduction(cluster, layout);
  // What is reduced cannot be reduced again. Two schedules tell roughly how many messages there
  // are.
  if (!data.empty() ||
      expected_cost(asked, parts[0].plan, layout, symmetry, 2).messages < options.pauses_from)
    options.most_open = kAllOpen;
  double element_bytes = static_cast<double>(size_of(type));
  std::vector<std::size_t> elements;
  for (const Part& part : parts) elements.push_back(part.count);
  if (symmetry.any() && asked.count > 0) {
    std::size_t unit = symmetry.unit();
    if (parts.size() > 1) unit *= parts[1].plan.cut().parts();
    for (std::size_t& n : elements) n = (n + unit - 1) / unit * unit;
  }
  const double meant = asked.elements > 0 ? asked.elements : static_cast<double>(asked.count);
  if (elements[0] > 0) element_bytes *= meant / static_cast<double>(elements[0]);

  const ChannelOrder order =
      symmetric.gpus_alike ? ChannelOrder::as_numbered : ChannelOrder::from_own_rail;
  const SimulatedNetwork network{cluster, layout, symmetry, element_bytes, order, options};
  auto run = run_ranks(network, [&](Transport& t) {
    std::size_t offset = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Buffer buffer = data.empty() ? Buffer{nullptr, offset, elements[i], type}
                                         : data[static_cast<std::size_t>(t.rank())];
      parts[i].run(t, buffer, asked.op);
      offset += elements[i];
    }
  });
  if (!run) {
    options.most_open = kAllOpen;
    return simulate_here(asked, options, data);
  }
  CollectiveResult result = std::move(*run);
  if (asked.beside) note_ends(result);
  result.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace foreduce
