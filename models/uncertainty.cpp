#include "models/uncertainty.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <set>

#include "input/cited_data.hpp"
#include "input/counted.hpp"
#include "input/fields.hpp"
#include "input/files.hpp"
#include "input/holds.hpp"
#include "models/bounds.hpp"

namespace foreduce {

template <class Fields>
void describe(Fields& f, UncertaintyConstants::SizeRange& r) {
  f.required("below", r.below, "upper end of the sizes");
  f.required("spread", r.spread, "factor either way", Limits::between(1, 10));
}
template <class Fields>
void describe(Fields& f, UncertaintyConstants::SizePower& r) {
  f.required("below", r.below, "upper end of the sizes");
  f.required("power", r.power, "of the factor either way", Limits::between(1, 10));
}
template <class Fields>
void describe(Fields& f, UncertaintyConstants& c) {
  f.required("unseen_source", c.unseen_source, "", Limits::between(1, 10));
  f.required("data_sheet", c.data_sheet, "", Limits::between(1, 10));
  f.required("least", c.least, "", Limits::between(1, 10));
  f.required("other_nodes_reach", c.other_nodes_reach, "", Limits::between(1, 1000));
  f.required("larger_domain", c.larger_domain, "");
  f.required("server_gpus", c.server_gpus, "", Limits::between(1, 1024));
  f.required("node_all_to_all", c.node_all_to_all, "", Limits::between(1, 10));
  f.required("alike", c.alike, "", Limits::between(0, 1));
  f.required("other_collective", c.other_collective, "");
  f.required("unseen_gpu", c.unseen_gpu, "");
  f.required("published", c.published, "");
  f.required("same_links", c.same_links, "");
  f.sources("sources");
}

const UncertaintyConstants& uncertainty_constants() {
  static const auto constants =
      load_cited<UncertaintyConstants>(data_folder() / "models" / "uncertainty.yaml");
  return constants;
}

namespace {

double spread_at(const std::vector<UncertaintyConstants::SizeRange>& ranges, Bytes bytes) {
  for (const auto& range : ranges)
    if (bytes < range.below) return range.spread;
  return ranges.back().spread;
}

double power_at(const std::vector<UncertaintyConstants::SizePower>& ranges, Bytes bytes) {
  for (const auto& range : ranges)
    if (bytes < range.below) return range.power;
  return ranges.back().power;
}

/// `inside`: the spread of the range itself. Several reasons widen no more than the widest of them.
void widen(Uncertainty& u, double inside, const std::string& why) {
  u.spread = std::max({u.spread, uncertainty_constants().unseen_source, inside * inside});
  u.reasons.push_back(why);
}

const Catalogue& catalogue() {
  static const Catalogue all;
  return all;
}
bool is_instance_type(const std::string& name) {
  const auto& names = catalogue().names();
  return std::binary_search(names.begin(), names.end(), name);
}
/// Read once. May be asked by several threads, for models/ is a library too.
const Machine& instance_type(const std::string& name) {
  static std::mutex one_at_a_time;
  static std::map<std::string, Machine> known;  // whose elements stay where they are
  const std::lock_guard lock(one_at_a_time);
  const auto at = known.find(name);
  return at != known.end() ? at->second : known.emplace(name, catalogue().load(name)).first->second;
}

bool have_same_links(const std::string& family, const std::string& other) {
  const auto& groups = uncertainty_constants().same_links;
  return family == other || std::any_of(groups.begin(), groups.end(), [&](const auto& group) {
           return holds(group, family) && holds(group, other);
         });
}

/// Whether what was compared tells of `nodes` of an instance type with GPUs of `family`. One node
/// has no network: there any type with such GPUs does.
bool is_alike(const Compared& c, const std::string& instance, const std::string& family,
              int nodes) {
  if (c.instance == instance) return true;
  if (family.empty()) return false;
  if (have_same_links(c.instance, family)) return true;  // a fabric was compared by families
  if (nodes != 1 || c.nodes.front() != 1 || !is_instance_type(c.instance)) return false;
  const Machine& compared = instance_type(c.instance);
  return compared.gpu && have_same_links(family_of(*compared.gpu), family);
}

/// "measured at this size on 2, 4 and 8 nodes only"
std::string measured_on(const std::vector<int>& nodes) {
  if (nodes == std::vector{1}) return "measured at this size on 1 node only";
  const std::vector<int> first(nodes.begin(), nodes.end() - 1);
  return first.empty() ? fmt::format("measured at this size on {} nodes only", nodes.back())
                       : fmt::format("measured at this size on {} and {} nodes only",
                                     fmt::join(first, ", "), nodes.back());
}

/// One node says little of several, whatever their kind.
bool reaches(const Compared& seen, int nodes) { return (nodes > 1) == (seen.nodes.back() > 1); }

/// For a number of nodes that was not compared, of a kind that was. Where fits were compared with
/// numbers of nodes that they lacked, as far off as those were; beyond the reach of that comparison
/// the logarithm of the factor grows with the root of the doublings, as independent errors add up.
void widen_for_nodes(Uncertainty& u, const Accuracy& range, const Compared& seen, int nodes) {
  const std::string why = measured_on(seen.nodes);
  // More or fewer of several nodes say nothing of a node alone, nor that of several.
  if (!range.spread_other_nodes || !reaches(seen, nodes)) return widen(u, range.spread, why);
  const double times = std::max(1.0 * nodes / seen.nodes.back(), 1.0 * seen.nodes.front() / nodes),
               further = std::max(
                   1.0, std::log2(times) / std::log2(uncertainty_constants().other_nodes_reach));
  u.spread = std::max(u.spread, std::pow(*range.spread_other_nodes, std::sqrt(further)));
  u.reasons.push_back(why);
}

/// Which collective of which cluster the uncertainty is asked of.
struct Question {
  std::string instance;  ///< its type
  std::string named;     ///< what messages call it
  std::string family;    ///< of its GPUs; empty: not known
  int nodes, per_node;
  Bytes bytes;
  Collective collective = Collective::all_reduce;
};

/// Of a cluster whose like is in no range.
void widen_for_unseen(Uncertainty& u, double inside, const Profile& profile, const Question& q) {
  const bool known = q.family.empty() || profile.nearest_for.empty() ||
                     holds(profile.nearest_for, q.family) || holds(profile.instances, q.instance);
  widen(u, inside,
        known ? fmt::format("no measurements of {}{}", q.named,
                            profile.accuracy.size() > 1 ? " at this size" : "")
              : fmt::format("no measurements of {}: as {}", q.family,
                            fmt::join(profile.nearest_for, ", ")));
  std::set<std::string> others;  // that were measured over such a network, none of its kind
  for (const Accuracy& a : profile.accuracy)
    for (const Compared& c : a.compared)
      if (reaches(c, q.nodes)) others.insert(c.instance);
  const bool of_its_kind = std::any_of(others.begin(), others.end(), [&](const auto& other) {
    return holds(profile.nearest_for, other) || holds(profile.instances, other);
  });
  const bool unseen = known && !profile.nearest_for.empty() && !others.empty() && !of_its_kind;
  if (unseen)
    u.reasons.push_back(fmt::format("no {} was measured over this network: as {}", q.family,
                                    fmt::join(others, ", ")));
  if (!known || unseen || profile.several_kinds)
    u.spread = std::max(u.spread, spread_at(uncertainty_constants().unseen_gpu, q.bytes));
}

/// What measurements that a profile was compared with say.
struct FromRanges {
  Uncertainty uncertainty;
  double inside = 1;                             ///< the spread of the range that it comes from
  Collective compared = Collective::all_reduce;  ///< of that range
};

/// A fabric's ranges stand beside those of the GPU on one node: of equal sizes, the one that has
/// seen such a cluster (`seen_on`), and of these the one that has seen such a collective.
template <class SeenOn>
const Accuracy& nearest_range(const Profile& profile, const Question& q, SeenOn seen_on) {
  const auto outside = [&](const Accuracy& a) {
    return q.bytes < a.least  ? std::log(a.least.value / std::max(1.0, q.bytes.value))
           : q.bytes > a.most ? std::log(q.bytes.value / a.most.value)
                              : 0.0;
  };
  const auto distance = [&](const Accuracy& a) {
    const auto c = seen_on(a);
    const bool same_kind = c != a.compared.end();
    const int unlike = same_kind && holds(c->nodes, q.nodes) ? 0
                       : same_kind && reaches(*c, q.nodes)   ? 1
                       : std::any_of(a.compared.begin(), a.compared.end(),
                                     [&](const Compared& o) { return reaches(o, q.nodes); })
                           ? 2
                           : 3;
    return std::tuple(outside(a), unlike, a.collective != q.collective);
  };
  return *std::min_element(
      profile.accuracy.begin(), profile.accuracy.end(),
      [&](const Accuracy& a, const Accuracy& b) { return distance(a) < distance(b); });
}

FromRanges from_ranges(const Profile& profile, const Question& q) {
  const auto at = [&](const Accuracy& a) {
    return std::find_if(a.compared.begin(), a.compared.end(), [&](const Compared& c) {
      return is_alike(c, q.instance, q.family, q.nodes);
    });
  };
  const Accuracy& nearest = nearest_range(profile, q, at);
  const double inside = std::max(nearest.spread, uncertainty_constants().least);
  Uncertainty u{inside, {}, {}, {}};
  const auto here = at(nearest);
  if (here == nearest.compared.end()) {
    widen_for_unseen(u, inside, profile, q);
  } else {
    if (!holds(here->nodes, q.nodes)) widen_for_nodes(u, nearest, *here, q.nodes);
    if (q.per_node < here->per_node_least || q.per_node > here->per_node_most)
      widen(u, inside,
            here->per_node_least == here->per_node_most
                ? fmt::format("measured with {} a node only", counted(here->per_node_least, "GPU"))
                : fmt::format("measured with {} to {} GPUs a node only", here->per_node_least,
                              here->per_node_most));
  }
  Bytes least = nearest.least, most = nearest.most;
  int most_per_node = 0;
  for (const Accuracy& a : profile.accuracy) {
    least = std::min(least, a.least);
    most = std::max(most, a.most);
    for (const Compared& c : a.compared) most_per_node = std::max(most_per_node, c.per_node_most);
  }
  if (most_per_node > 0 &&
      q.per_node > std::max(uncertainty_constants().server_gpus, 2 * most_per_node)) {
    u.spread = std::max(u.spread, spread_at(uncertainty_constants().larger_domain, q.bytes));
    u.reasons.push_back(fmt::format("measured with at most {} GPUs a node", most_per_node));
  }
  if (q.bytes < least || q.bytes > most)
    widen(u, inside,
          fmt::format("measured from {} to {} only", to_text(least),
                      to_text(most)));  // between two ranges is inside
  if (nearest.seen) widen(u, inside, "measured in one run only, to which the profile is fitted");
  return {u, inside, nearest.collective};
}

}  // namespace

Uncertainty uncertainty(const Profile& profile, const std::string& instance, int nodes,
                        int per_node, Bytes bytes, const std::string& family) {
  if (profile.accuracy.empty())
    return {uncertainty_constants().data_sheet,
            {},
            {profile.ideal() ? "no measurements: links at the rates of their data sheets"
                             : "this profile was never compared with collectives"},
            {}};
  return from_ranges(profile, {instance, instance, family, nodes, per_node, bytes}).uncertainty;
}

namespace {

constexpr Bytes kSmall{1 << 20};

/// Bytes a second of all NICs.
double network_of(const Machine& m) { return m.nic.bandwidth.value * m.nic.count; }

/// The machines outside of EC2 that ship. Read once; see instance_type().
const std::vector<Machine>& machines_outside() {
  static const std::vector<Machine> all = [] {
    std::vector<Machine> machines;
    for (const std::string& name : machines_elsewhere()) machines.push_back(machine_named(name));
    return machines;
  }();
  return all;
}

/// Whether such GPUs were measured over the fabric of a machine outside of EC2, but behind NICs of
/// other bandwidths.
bool has_other_nics(const Machine& machine) {
  if (!machine.gpu || is_instance_type(machine.name)) return false;
  bool known = false;
  for (const Machine& m : machines_outside()) {
    if (!m.gpu || m.fabric() != machine.fabric() ||
        !have_same_links(family_of(*m.gpu), family_of(*machine.gpu)))
      continue;
    known = true;
    const double a = network_of(m), b = network_of(machine);
    if (std::abs(a - b) <= uncertainty_constants().alike * std::max(a, b)) return false;
  }
  return known;
}

/// What of a machine is otherwise than in the instance type that it says it is like, and whose
/// measurements it therefore takes: "NICs", "NVLink"; empty: nothing that matters.
std::string unlike_its_type(const Machine& machine) {
  if (!is_instance_type(machine.like)) return "";
  const Machine& base = instance_type(machine.like);
  if (base.fabric() != machine.fabric()) return "";  // its profile is that fabric's
  const double alike = uncertainty_constants().alike;
  const auto differ = [alike](double a, double b) {
    return std::abs(a - b) > alike * std::max(a, b);
  };
  std::vector<std::string> parts;
  const auto nvlink = [](const Machine& m) {
    return m.nvlink ? m.nvlink->bandwidth.value * m.nvlink->links : 0.0;
  };
  const auto pcie = [](const Machine& m) { return m.pcie ? m.pcie->bandwidth.value : 0.0; };
  if (differ(network_of(machine), network_of(base))) parts.emplace_back("NICs");
  if (differ(nvlink(machine), nvlink(base))) parts.emplace_back("NVLink");
  if (differ(pcie(machine), pcie(base))) parts.emplace_back("PCIe");
  return fmt::format("{}", fmt::join(parts, " and "));
}

/// Whether the profile was made on GPUs with NVLink, and the machine's have none.
bool lacks_nvlink(const Profile& profile, const Machine& machine) {
  return !machine.nvlink && machine.gpus() > 1 && !profile.instances.empty() &&
         is_instance_type(profile.instances.front()) &&
         instance_type(profile.instances.front()).nvlink.has_value();
}

}  // namespace

Uncertainty uncertainty(const Profile& profile, const Cluster& cluster, Bytes bytes, RunBy by,
                        Collective collective) {
  const int nodes = cluster.worker_nodes();
  const Machine& machine = cluster.weakest().machine();
  auto [u, inside, compared] =
      profile.accuracy.empty()
          ? FromRanges{uncertainty(profile, machine.type(), nodes, 0, bytes),
                       uncertainty_constants().data_sheet, Collective::all_reduce}
          : from_ranges(profile,
                        {machine.type(), machine.name, machine.gpu ? family_of(*machine.gpu) : "",
                         nodes, cluster.gpus() / nodes, bytes, collective});
  const LowerBound bound = collective_bound(cluster, collective, bytes, summed_at_best(cluster));
  u.least = bound.time - bound.latency;
  if (profile.accuracy.empty()) return u;
  const FabricSpec& fabric = cluster.fabric();
  if (by == RunBy::own_algorithm && profile.library.starts_with("NCCL"))
    widen(u, inside, "only NCCL's algorithms were measured, not this one");
  if (by == RunBy::forced)
    widen(u, inside, "what NCCL chooses was measured, not what it is forced to");
  if (by == RunBy::older_release)
    widen(u, inside, "measured with later releases of NCCL on such GPUs");
  if (!cluster.homogeneous()) widen(u, inside, "measured on equal nodes only");
  if (const std::string parts = unlike_its_type(machine); !parts.empty())
    widen(u, inside, fmt::format("measured on {} with other {}", machine.like, parts));
  else if (nodes > 1 && machine.nic.efa == 0 && has_other_nics(machine))
    widen(u, inside, "measured with other NICs");
  if (lacks_nvlink(profile, machine))
    widen(u, inside, "measured on GPUs with NVLink, which these have not");
  if (nodes > 1 && profile.fabric && !profile.holds_over(machine.fabric())) {
    widen(u, inside,
          fmt::format("measured over {}, not {}", to_text(*profile.fabric),
                      to_text(machine.fabric())));
    u.spread = std::max(u.spread, spread_at(uncertainty_constants().unseen_gpu, bytes));
  }
  if (fabric.nodes_per_leaf > 0 || !fabric.placement_group)
    widen(u, inside, "measured on one switch that never blocks");
  const bool others = by != RunBy::own_algorithm && collective != compared;
  if (others && profile.library.starts_with("NCCL")) {
    u.spread = std::max(u.spread, spread_at(uncertainty_constants().other_collective, bytes));
    if (collective == Collective::all_to_all && nodes == 1 && bytes < kSmall)
      u.spread = std::max(u.spread, uncertainty_constants().node_all_to_all);
    u.reasons.push_back(fmt::format("fitted to NCCL's {}s, not to its {}s", title_of(compared),
                                    title_of(collective)));
  }
  // The intervals of other collectives come from published times of all kinds as they are.
  if (by != RunBy::own_algorithm)
    u.published = collective == Collective::all_reduce
                      ? std::pow(u.spread, power_at(uncertainty_constants().published, bytes))
                      : u.spread;
  return u;
}

}  // namespace foreduce
