#include "models/profile.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreduce {

const std::vector<std::string>& origins() {
  static const std::vector<std::string> all = {"published", "fitted",     "derived",
                                               "recalled",  "data sheet", "assumed"};
  return all;
}

const char* name_of(PathClass kind) {
  static constexpr const char* names[] = {"network", "nvlink", "pcie", "host_memory"};
  return names[static_cast<std::size_t>(kind)];
}

const Protocol* Profile::protocol(const std::string& wanted) const {
  const auto at = std::find_if(protocols.begin(), protocols.end(),
                               [&](const Protocol& p) { return p.name == wanted; });
  return at == protocols.end() ? nullptr : &*at;
}

bool Profile::ideal() const {
  return !launch && !reduce_bandwidth && !in_switch && !in_switch_sync && protocols.empty() &&
         std::all_of(links.begin(), links.end(), [](const LinkClass& c) {
           return !c.latency && !c.efficiency && !c.overhead && !c.proxy_rate;
         });
}

Profiles::Profiles(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, none))
    if (entry.path().extension() == ".yaml") names_.push_back(entry.path().stem().string());
  if (names_.empty()) throw input_error(fmt::format("{} holds no profiles", folder_.string()));
  std::sort(names_.begin(), names_.end());
}

Profile Profiles::load(const std::string& name) const {
  if (names_file(name)) return load_profile(name);
  if (std::find(names_.begin(), names_.end(), name) == names_.end())
    throw input_error(fmt::format("there is no profile called '{}'", name), suggest(name, names_));
  return load_profile(folder_ / (name + ".yaml"));
}

Profile Profiles::made_for(const std::string& instance, const std::string& library) const {
  for (const std::string& name : names_) {
    Profile profile = load(name);
    if (profile.library.starts_with(library) &&
        std::find(profile.instances.begin(), profile.instances.end(), instance) !=
            profile.instances.end())
      return profile;
  }
  return load("ideal");
}

Profile Profiles::nearest_to(const Machine& machine) const {
  Profile made = made_for(machine.type());
  const Catalogue catalogue;
  const std::vector<std::string>& known = catalogue.names();
  // A machine of the user's own may have any network: what EFA costs is no guess for that.
  if (made.name != "ideal" || !machine.gpu ||
      std::find(known.begin(), known.end(), machine.type()) == known.end())
    return made;
  const std::string family = machine.gpu->model.substr(0, machine.gpu->model.find_first_of(" -"));
  for (const std::string& name : names_) {
    Profile profile = load(name);
    if (std::find(profile.nearest_for.begin(), profile.nearest_for.end(), family) !=
        profile.nearest_for.end())
      return profile;
  }
  return made;
}

}  // namespace foreduce
