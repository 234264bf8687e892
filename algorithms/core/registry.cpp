#include "algorithms/core/registry.hpp"

#include <algorithm>
#include <bit>

namespace foreduce {
namespace {

// The one mutable static of the project: filled before main, read-only after.
std::vector<const Algorithm*>& registry(Collective collective) {
  static std::array<std::vector<const Algorithm*>, kCollectives.size()> all;
  return all[static_cast<std::size_t>(collective)];
}

}  // namespace

Registered::Registered(const Algorithm& algorithm) : algorithm_(algorithm) {
  auto& all = registry(algorithm.collective);
  const auto place =
      std::lower_bound(all.begin(), all.end(), algorithm.name,
                       [](const Algorithm* a, std::string_view name) { return a->name < name; });
  all.insert(place, &algorithm_);
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

std::optional<std::string> unsupported_reason(const Algorithm& algorithm, const Layout& layout,
                                              const Plan& plan) {
  if (algorithm.uses_servers && layout.servers() == 0) return "it needs reduction servers";
  return algorithm.unsupported_reason ? algorithm.unsupported_reason(layout, plan) : std::nullopt;
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
