// Profiles that a test makes up.
#pragma once

#include <memory>
#include <string>

#include "input/yaml.hpp"
#include "models/profile.hpp"
#include "tests/support/simulation.hpp"

namespace foreduce::test {

/// A profile with this below its head.
inline Profile profile_with(const std::string& body) {
  return read_profile(YamlFile::parse("test.yaml", "profile: p\nlibrary: test\n" + body));
}

/// "latency: { value: 3 us, … }".
inline std::string number(const std::string& key, const std::string& value) {
  return key + ": { value: " + value + ", origin: assumed, source: test }";
}
/// The part of a profile that says this of links between nodes.
inline std::string network_with(const std::string& numbers) {
  return "links: { network: { " + numbers + " } }\n";
}
/// The part of a profile with one protocol, P, of which it says this.
inline std::string protocol_with(const std::string& numbers) {
  return "protocols:\n  - { name: P" + (numbers.empty() ? "" : ", " + numbers) + " }\n";
}

/// How a profile sends, by its protocol P if it has one.
inline SimOptions sent_by(Profile profile) {
  SimOptions options;
  options.sending.protocol = profile.protocols.empty() ? "" : "P";
  options.sending.profile = std::make_shared<const Profile>(std::move(profile));
  return options;
}

/// Ranks a switch apart: 12.5 GB/s, 5 us, and reductions that take no time.
inline Cluster switched(int ranks, double latency = 5e-6) {
  return cluster_of(flat_machine({12.5e9, latency, 1e15}), ranks);
}

}  // namespace foreduce::test
