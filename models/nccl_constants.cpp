#include "models/nccl_constants.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "input/fields.hpp"
#include "input/files.hpp"

namespace foreduce {

constexpr int kNcclCorrections = 24;

template <class Fields>
void row(Fields& f, const char* key, NcclNumbers& values, std::size_t count) {
  f.required(key, values, "", Limits::zero_or_more());
  f.verify([&, key, count](auto& fields) {
    if (values.size() != count) fields.problem(key, fmt::format("{} numbers are due here", count));
  });
}
template <class Fields>
void other_row(Fields& f, const char* key, NcclNumbers& values, std::size_t count) {
  f.optional(key, values, "", Limits::zero_or_more());
  f.verify([&, key, count](auto& fields) {
    if (!values.empty() && values.size() != count)
      fields.problem(key, fmt::format("{} numbers are due here", count));
  });
}
template <class Fields>
void describe(Fields& f, NcclHops& p) {
  row(f, "tree", p.tree, 3);
  row(f, "ring", p.ring, 3);
}
template <class Fields>
void describe(Fields& f, NcclGraphs& g) {
  row(f, "ring", g.ring, 3);
  row(f, "tree", g.tree, 3);
  row(f, "nvls", g.nvls, 3);
}
template <class Fields>
void describe(Fields& f, NcclGeneration& g) {
  f.required("name", g.name, "");
  f.required("gpus", g.gpus, "beginnings of GPU models");
  row(f, "ll_max", g.ll_max, 3);
  row(f, "ll128_ring", g.ll128_ring, 3);
  row(f, "ll128_tree", g.ll128_tree, 3);
  row(f, "tree", g.tree, 3);
  row(f, "nvls_tree", g.nvls_tree, 3);
  f.required("nvls_efficiency", g.nvls_efficiency, "", Limits::between(0, 1));
  f.required("one_node", g.one_node, "");
  f.required("nodes", g.nodes, "");
  f.required("network", g.network, "GB/s of a node's NICs that nodes is for");
}
template <class Fields>
void describe(Fields& f, NcclReported& r) {
  f.required("instances", r.instances, "");
  f.required("latency", r.latency, "");
}
template <class Fields>
void describe(Fields& f, NcclTuner& t) {
  f.required("instances", t.instances, "");
  f.required("regions", t.regions, "");
}
template <class Fields>
void describe(Fields& f, NcclOlderGeneration& g) {
  f.required("name", g.name, "");
  other_row(f, "ll_max", g.ll_max, 3);
  other_row(f, "ll128_ring", g.ll128_ring, 3);
  other_row(f, "ll128_tree", g.ll128_tree, 3);
  other_row(f, "tree", g.tree, 3);
  other_row(f, "nvls_tree", g.nvls_tree, 3);
}
template <class Fields>
void describe(Fields& f, NcclOlder& o) {
  f.required("until", o.until, "");
  other_row(f, "tree_simple", o.tree_simple, 4);
  other_row(f, "nvls_hop", o.nvls_hop, 2);
  other_row(f, "nvls_tree_hop", o.nvls_tree_hop, 2);
  other_row(f, "pat", o.pat, 4);
  f.optional("ring_ll_share", o.ring_ll_share, "", Limits::between(0, 1));
  f.optional("nvls_by_graph", o.nvls_by_graph, "");
  f.optional("hop_more", o.hop_more, "");
  f.optional("no_pat", o.no_pat, "");
  f.optional("shorter_tree_chunks", o.shorter_tree_chunks, "");
  f.optional("generations", o.generations, "");
}
template <class Fields>
void describe(Fields& f, NcclConstants& c) {
  f.required("source", c.source, "");
  f.required("base", c.base, "");
  f.required("hop_nvlink", c.hop_nvlink, "");
  f.required("hop_pcie", c.hop_pcie, "");
  f.required("hop_net", c.hop_net, "");
  row(f, "nvls_chunk", c.nvls_chunk, 2);
  row(f, "nvls_hop", c.nvls_hop, 2);
  row(f, "nvls_tree_hop", c.nvls_tree_hop, 2);
  row(f, "pat", c.pat, 4);
  row(f, "tree_correction_ll", c.correction[0], kNcclCorrections);
  row(f, "tree_correction_ll128", c.correction[1], kNcclCorrections);
  row(f, "tree_correction_simple", c.correction[2], kNcclCorrections);
  f.required("ring_ll_share", c.ring_ll_share, "", Limits::between(0, 1));
  f.required("buffers_from", c.buffers_from, "");
  f.required("newest", c.newest, "");
  f.required("older", c.older, "");
  f.required("generations", c.generations, "");
  f.required("reported_latency", c.reported, "");
  f.required("tuner", c.tuner, "");
}

namespace {

/// The second number of "2.21" or "2.21.5"; 0 for what is not a version 2.
int minor_of(const std::string& version) {
  int minor = 0;
  if (version.starts_with("2."))
    std::from_chars(version.data() + 2, version.data() + version.size(), minor);
  return minor;
}

void replace(NcclNumbers& by, const NcclNumbers& other) {
  if (!other.empty()) by = other;
}

/// What `older` says in place of what a later release says.
void apply(NcclConstants& c, const NcclOlder& older) {
  if (!older.tree_simple.empty()) {
    c.base.tree[2] = older.tree_simple[0];
    c.hop_nvlink.tree[2] = older.tree_simple[1];
    c.hop_pcie.tree[2] = older.tree_simple[2];
    c.hop_net.tree[2] = older.tree_simple[3];
  }
  replace(c.nvls_hop, older.nvls_hop);
  replace(c.nvls_tree_hop, older.nvls_tree_hop);
  replace(c.pat, older.pat);
  c.ring_ll_share = older.ring_ll_share.value_or(c.ring_ll_share);
  c.nvls_by_graph |= older.nvls_by_graph;
  c.hop_more |= older.hop_more;
  c.no_pat |= older.no_pat;
  c.shorter_tree_chunks |= older.shorter_tree_chunks;
  for (const NcclOlderGeneration& o : older.generations)
    for (NcclGeneration& g : c.generations) {
      if (g.name != o.name) continue;
      replace(g.ll_max, o.ll_max);
      replace(g.ll128_ring, o.ll128_ring);
      replace(g.ll128_tree, o.ll128_tree);
      replace(g.tree, o.tree);
      replace(g.nvls_tree, o.nvls_tree);
    }
}

/// The first release whose constants are known, and the first for which they stand: before 2.8
/// trees did not reduce and broadcast at once.
constexpr int kOldest = 19, kNearOldest = 8;

const std::map<std::string, NcclConstants>& all_constants() {
  static const std::map<std::string, NcclConstants> all = [] {
    NcclConstants newest;
    YamlFile file = YamlFile::load(data_folder() / "models" / "nccl.yaml");
    read_file(file, newest);
    std::map<std::string, NcclConstants> made;
    for (int minor = kOldest; minor <= minor_of(newest.newest); ++minor) {
      NcclConstants& c = made.emplace(fmt::format("2.{}", minor), newest).first->second;
      for (const NcclOlder& older : newest.older)  // the newest of them first
        if (minor <= minor_of(older.until)) apply(c, older);
    }
    return made;
  }();
  return all;
}

}  // namespace

const NcclGeneration& NcclConstants::generation_of(const std::string& gpu) const {
  for (const NcclGeneration& g : generations)
    for (const std::string& start : g.gpus)
      if (gpu.starts_with(start)) return g;
  return generations.back();
}

const std::vector<std::string>& nccl_releases() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names;
    for (const auto& [name, constants] : all_constants()) names.push_back(name);
    return names;  // two digits each, so that the map's order is theirs
  }();
  return all;
}

const NcclConstants& nccl_constants(const std::string& release) {
  const auto& all = all_constants();
  if (release.empty()) return all.rbegin()->second;
  const auto found = all.find(release);
  if (found == all.end())
    throw input_error(fmt::format("NCCL {} is not known", release),
                      fmt::format("accepted: {}", fmt::join(nccl_releases(), ", ")));
  return found->second;
}

std::string nccl_release_of(const std::string& version) {
  const int minor = minor_of(version);
  if (minor < kNearOldest) return "";
  return fmt::format("2.{}", std::clamp(minor, kOldest, minor_of(nccl_constants().newest)));
}

Bytes nccl_buffer_with(const std::string& plugin_version) {
  constexpr Bytes kOwn{4 << 20};
  const auto numbers = [](const std::string& version) {
    std::array<int, 2> all{};
    const char* at = version.data();
    const char* const end = at + version.size();
    for (int& n : all) {
      at = std::from_chars(at, end, n).ptr;
      if (at < end && *at == '.') ++at;
    }
    return all;
  };
  const bool older = numbers(plugin_version) < numbers(nccl_constants().buffers_from);
  return !plugin_version.empty() && older ? kOwn : Bytes{};
}

}  // namespace foreduce
