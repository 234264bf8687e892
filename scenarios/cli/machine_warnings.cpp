#include "scenarios/cli/machine_warnings.hpp"

#include <fmt/format.h>

#include <iostream>
#include <set>

#include "input/files.hpp"
#include "scenarios/report/machine_words.hpp"

namespace foreduce {

void warn_of_machine(const std::string& instance, const std::filesystem::path& folder) {
  if (!names_file(instance)) return;
  try {
    for (const ImplausibleValue& value : implausible_values(machine_named(instance, folder)))
      std::cerr << fmt::format("{}: warning: {}\n", instance, implausible_words(value));
  } catch (const InputError&) {  // told where the machine is needed
  }
}

void warn_of_machines(const Scenario& scenario) {
  const ClusterSpec& c = scenario.cluster;
  std::set<std::string> names(c.instance.values.begin(), c.instance.values.end());
  for (const ClusterChoice& choice : c.choices)
    names.insert(choice.instance.values.begin(), choice.instance.values.end());
  for (const MixedSpec& m : c.mixed) names.insert(m.instance);
  names.insert(scenario.allreduce.servers.instance);
  const auto folder = std::filesystem::path(scenario.file).parent_path();
  for (const std::string& name : names) warn_of_machine(name, folder);
}

}  // namespace foreduce
