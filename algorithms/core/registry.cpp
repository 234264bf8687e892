#include "algorithms/core/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <stdexcept>

namespace foreduce {
namespace {

/// An algorithm that was added later, with the texts that it refers to.
struct Added {
  Algorithm algorithm;
  std::string name, origin, content;
};

/// Filled before main and by add_algorithm(), read-only after. What else is kept for all of the
/// program are the plug-ins and schedules that were loaded (algorithms/extensions).
struct State {
  Registry own;
  Registry* looked_up = &own;
  std::deque<Added> added;
};
State& state() {
  static State all;
  return all;
}
const std::vector<const Algorithm*>& registry(Collective collective) {
  return (*state().looked_up)[static_cast<std::size_t>(collective)];
}

void insert(Registry& into, const Algorithm& algorithm) {
  auto& all = into[static_cast<std::size_t>(algorithm.collective)];
  all.insert(
      std::lower_bound(all.begin(), all.end(), algorithm.name,
                       [](const Algorithm* a, std::string_view name) { return a->name < name; }),
      &algorithm);
}

}  // namespace

Registry& own_registry() { return state().own; }
void look_up_in(Registry& registry) { state().looked_up = &registry; }

Registered::Registered(const Algorithm& algorithm) : algorithm_(algorithm) {
  insert(state().own, algorithm_);
}

std::string why_not_to_add(const Algorithm& algorithm, std::string_view name) {
  if (name.empty()) return "an algorithm has no name";
  const char* missing = !algorithm.run     ? "run"
                        : !algorithm.sends ? "sends"
                        : !algorithm.steps ? "steps"
                                           : nullptr;
  if (missing) return fmt::format("the algorithm '{}' has no {}", name, missing);
  if (const Algorithm* there = find_algorithm(name, algorithm.collective))
    return fmt::format(
        "there is an algorithm '{}' for {} already, {}", name, title_of(algorithm.collective),
        there->origin.empty() ? "which is built in" : fmt::format("of {}", there->origin));
  return "";
}

const Algorithm& add_algorithm(Algorithm algorithm, std::string name, std::string origin,
                               std::string content) {
  if (const std::string why = why_not_to_add(algorithm, name); !why.empty())
    throw std::invalid_argument(why);
  Added& added =
      state().added.emplace_back(Added{algorithm, std::move(name), std::move(origin), {}});
  added.content = std::move(content);
  added.algorithm.name = added.name;
  added.algorithm.origin = added.origin;
  added.algorithm.content = added.content;
  insert(*state().looked_up, added.algorithm);
  return added.algorithm;
}

const std::vector<const Algorithm*>& algorithms(Collective collective) {
  return registry(collective);
}

std::vector<const Algorithm*> all_algorithms() {
  std::vector<const Algorithm*> all;
  for (const Collective c : kCollectives)
    all.insert(all.end(), registry(c).begin(), registry(c).end());
  return all;
}

std::vector<Collective> collectives_of(std::string_view name) {
  std::vector<Collective> found;
  for (const Collective c : kCollectives)
    if (find_algorithm(name, c)) found.push_back(c);
  return found;
}

const Algorithm* find_algorithm(std::string_view name, Collective collective) {
  const auto& all = registry(collective);
  const auto found =
      std::find_if(all.begin(), all.end(), [name](const Algorithm* a) { return a->name == name; });
  return found == all.end() ? nullptr : *found;
}

const Algorithm& usual_algorithm(Collective collective) {
  const auto& all = registry(collective);
  const auto found = std::find_if(all.begin(), all.end(),
                                  [](const Algorithm* a) { return a->usual && a->origin.empty(); });
  if (found == all.end()) throw std::logic_error("a collective has no usual algorithm");
  return **found;
}

std::optional<std::string> unsupported_reason(const Algorithm& algorithm, const Layout& layout,
                                              const Plan& plan) {
  if (algorithm.uses_servers && layout.servers() == 0) return "it needs reduction servers";
  if (constexpr int kSteps = 1 << TagBits::step;
      algorithm.steps && layout.workers > kSteps / 2 && algorithm.steps(layout.workers) >= kSteps)
    return fmt::format("it takes {} steps among {} ranks, and messages are numbered up to {}",
                       algorithm.steps(layout.workers), layout.workers, kSteps - 1);
  return algorithm.unsupported_reason ? algorithm.unsupported_reason(layout, plan) : std::nullopt;
}

static const Algorithm* inner_of(const Algorithm& algorithm, const Plan& plan) {
  return algorithm.takes_inner ? find_algorithm(plan.inner, algorithm.collective) : nullptr;
}

bool is_ours(const Algorithm& algorithm, const Plan& plan) {
  const Algorithm* inner = inner_of(algorithm, plan);
  return algorithm.origin.empty() && (!inner || inner->origin.empty());
}

std::string identity_of(const Algorithm& algorithm, const Plan& plan) {
  const auto of = [](const Algorithm& a) {
    return a.content.empty() ? std::string(a.name) : fmt::format("{}@{}", a.name, a.content);
  };
  const Algorithm* inner = inner_of(algorithm, plan);
  return fmt::format("{}|{}|{}", of(algorithm), static_cast<int>(algorithm.collective),
                     inner ? of(*inner) : plan.inner);
}

Plan with_defaults(const Algorithm& algorithm, Plan plan, const Layout& layout, std::size_t bytes) {
  if (plan.segments == 0)
    plan.segments = algorithm.segments_for ? algorithm.segments_for(layout, bytes) : 1;
  const int available = static_cast<int>(layout.channels.size());
  if (plan.channels == 0 || plan.channels > available) plan.channels = available;
  return plan;
}

Symmetry symmetry_on(const Algorithm& algorithm, const Layout& layout, const Plan& plan) {
  if (!algorithm.symmetry || layout.nodes < 2 || layout.per_node() == 0 || layout.dedicated_servers)
    return Symmetry::none;
  const Symmetry claimed = algorithm.symmetry(plan);
  const bool powers = std::has_single_bit(static_cast<unsigned>(layout.nodes)) &&
                      std::has_single_bit(static_cast<unsigned>(layout.per_node()));
  if (claimed == Symmetry::exclusive_or && !powers) return Symmetry::none;
  if (claimed == Symmetry::mirror && (layout.nodes % 2 != 0 || layout.servers() > 0))
    return Symmetry::none;
  return claimed;
}

}  // namespace foreduce
