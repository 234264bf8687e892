#include "algorithms/core/inner.hpp"

#include "algorithms/core/registry.hpp"

namespace foreduce {

std::vector<std::string> inner_algorithms(Collective collective) {
  const Layout pair = Layout::uniform(2);
  std::vector<std::string> names;
  for (const Algorithm* a : algorithms(collective)) {
    const bool sums_all = collective == Collective::all_reduce;
    if (a->takes_inner || a->uses_servers || (!sums_all && !a->run_blocks)) continue;
    if (!unsupported_reason(*a, pair, Plan{})) names.emplace_back(a->name);
  }
  return names;
}

std::string accepted_inner(Collective collective) {
  std::string text = "; accepted: ";
  for (const std::string& name : inner_algorithms(collective))
    text += (text.ends_with(": ") ? "" : ", ") + name;
  return text;
}

}  // namespace foreduce
