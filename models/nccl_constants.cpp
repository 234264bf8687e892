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
  f.required("gpus", g.gpus, "models, by their first words");
  f.optional("compared_from", g.compared_from, "");
  row(f, "ll_max", g.ll_max, 3);
  row(f, "ll128_ring", g.ll128_ring, 3);
  row(f, "ll128_tree", g.ll128_tree, 3);
  row(f, "tree", g.tree, 3);
  row(f, "nvls_tree", g.nvls_tree, 3);
  f.required("nvls_efficiency", g.nvls_efficiency, "", Limits::between(0, 1));
  f.required("one_node", g.one_node, "");
  f.required("nodes", g.nodes, "");
  f.required("network", g.network, "GB/s of a node's NICs that nodes is for");
  f.required("ring_plateau", g.ring_plateau, "", Limits::at_least(1));
  f.optional("nvls_tree_corrected_on_x86", g.nvls_tree_corrected_on_x86, "");
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
  other_row(f, "tree_most", g.tree_most, 3);
  other_row(f, "ll128_tree_most", g.ll128_tree_most, 3);
  other_row(f, "nvls_tree", g.nvls_tree, 3);
  f.optional("most", g.most, "", Limits::zero_or_more());
  f.optional("ring_plateau", g.ring_plateau, "", Limits::at_least(1));
}
template <class Fields>
void describe(Fields& f, NcclLimits& l) {
  f.required("ring", l.ring, "bytes per rank and channel");
  f.required("tree", l.tree, "bytes per channel");
}
template <class Fields>
void describe(Fields& f, NcclOlder& o) {
  f.required("until", o.until, "");
  f.optional("base", o.base, "");
  f.optional("hop_nvlink", o.hop_nvlink, "");
  f.optional("hop_pcie", o.hop_pcie, "");
  f.optional("hop_net", o.hop_net, "");
  other_row(f, "tree_simple", o.tree_simple, 4);
  other_row(f, "nvls_hop", o.nvls_hop, 2);
  other_row(f, "nvls_tree_hop", o.nvls_tree_hop, 2);
  other_row(f, "pat", o.pat, 4);
  other_row(f, "tree_correction_ll", o.correction[0], kNcclCorrections);
  other_row(f, "tree_correction_ll128", o.correction[1], kNcclCorrections);
  other_row(f, "tree_correction_simple", o.correction[2], kNcclCorrections);
  f.optional("tree_share", o.tree_share, "", Limits::between(0, 1));
  f.optional("tree_ll_share", o.tree_ll_share, "", Limits::between(0, 1));
  f.optional("tree_ll128_share", o.tree_ll128_share, "", Limits::between(0, 1));
  f.optional("ll128_ring_most", o.ll128_ring_most, "", Limits::positive());
  f.optional("plateau_a_rank", o.plateau_a_rank, "");
  f.optional("ll_up_to", o.ll_up_to, "");
  f.optional("ring_ll_share", o.ring_ll_share, "", Limits::between(0, 1));
  f.optional("ll_inside", o.ll_inside, "", Limits::positive());
  f.optional("nvls_by_graph", o.nvls_by_graph, "");
  f.optional("nvls_share", o.nvls_share, "", Limits::between(0, 1));
  f.optional("nvls_chain", o.nvls_chain, "", Limits::between(0, 1));
  f.optional("hop_more", o.hop_more, "");
  f.optional("lone_as_ring", o.lone_as_ring, "");
  f.optional("no_post_overhead", o.no_post_overhead, "");
  f.optional("reported", o.reported, "", one_of<NcclReportedUse>("use"));
  f.optional("no_pat", o.no_pat, "");
  f.optional("no_nvls", o.no_nvls, "");
  f.optional("no_nvls_tree", o.no_nvls_tree, "");
  f.optional("nvls_sums_only", o.nvls_sums_only, "");
  f.optional("shorter_tree_chunks", o.shorter_tree_chunks, "");
  f.optional("no_p2p", o.no_p2p, "");
  f.optional("ll128_on_volta", o.ll128_on_volta, "");
  f.optional("ring_hops_alike", o.ring_hops_alike, "");
  f.optional("whole_slices", o.whole_slices, "");
  f.optional("no_tree_lines", o.no_tree_lines, "");
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
  f.required("p2p_ll", c.p2p_ll, "");
  f.required("nvls_heads", c.nvls_heads, "", Limits::between(1, 1024));
  row(f, "nvls_hop", c.nvls_hop, 2);
  row(f, "nvls_tree_hop", c.nvls_tree_hop, 2);
  row(f, "pat", c.pat, 4);
  row(f, "tree_correction_ll", c.correction[0], kNcclCorrections);
  row(f, "tree_correction_ll128", c.correction[1], kNcclCorrections);
  row(f, "tree_correction_simple", c.correction[2], kNcclCorrections);
  f.required("ring_ll_share", c.ring_ll_share, "", Limits::between(0, 1));
  f.required("tree_share", c.tree_share, "", Limits::between(0, 1));
  f.required("tree_ll_share", c.tree_ll_share, "", Limits::between(0, 1));
  f.required("tree_ll128_share", c.tree_ll128_share, "", Limits::between(0, 1));
  f.required("ll_max_amd", c.ll_max_amd, "");
  f.required("ll_max_others", c.ll_max_others, "");
  f.required("buffers_from", c.buffers_from, "");
  f.required("reported_from", c.reported_from, "");
  f.required("reported_earlier", c.reported_earlier, "");
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
  if (older.base) c.base = *older.base;
  if (older.hop_nvlink) c.hop_nvlink = *older.hop_nvlink;
  if (older.hop_pcie) c.hop_pcie = *older.hop_pcie;
  if (older.hop_net) c.hop_net = *older.hop_net;
  if (!older.tree_simple.empty()) {
    c.base.tree[2] = older.tree_simple[0];
    c.hop_nvlink.tree[2] = older.tree_simple[1];
    c.hop_pcie.tree[2] = older.tree_simple[2];
    c.hop_net.tree[2] = older.tree_simple[3];
  }
  replace(c.nvls_hop, older.nvls_hop);
  replace(c.nvls_tree_hop, older.nvls_tree_hop);
  replace(c.pat, older.pat);
  for (std::size_t p = 0; p < std::size(c.correction); ++p)
    replace(c.correction[p], older.correction[p]);
  c.tree_share = older.tree_share.value_or(c.tree_share);
  c.tree_ll_share = older.tree_ll_share.value_or(c.tree_ll_share);
  c.tree_ll128_share = older.tree_ll128_share.value_or(c.tree_ll128_share);
  c.ll128_ring_most = older.ll128_ring_most.value_or(c.ll128_ring_most);
  c.plateau_a_rank = older.plateau_a_rank.value_or(c.plateau_a_rank);
  if (older.ll_up_to) c.ll_up_to = older.ll_up_to;
  c.ring_ll_share = older.ring_ll_share.value_or(c.ring_ll_share);
  c.ll_inside = older.ll_inside.value_or(c.ll_inside);
  c.nvls_share = older.nvls_share.value_or(c.nvls_share);
  c.nvls_chain = older.nvls_chain.value_or(c.nvls_chain);
  c.hop_more = older.hop_more.value_or(c.hop_more);
  c.reported_use = older.reported.value_or(c.reported_use);
  c.nvls_by_graph |= older.nvls_by_graph;
  c.lone_as_ring |= older.lone_as_ring;
  c.no_post_overhead |= older.no_post_overhead;
  c.no_pat |= older.no_pat;
  c.no_nvls |= older.no_nvls;
  c.no_nvls_tree |= older.no_nvls_tree;
  c.nvls_sums_only |= older.nvls_sums_only;
  c.shorter_tree_chunks |= older.shorter_tree_chunks;
  c.no_p2p |= older.no_p2p;
  c.ll128_on_volta |= older.ll128_on_volta;
  c.ring_hops_alike |= older.ring_hops_alike;
  c.whole_slices |= older.whole_slices;
  c.no_tree_lines |= older.no_tree_lines;
  for (const NcclOlderGeneration& o : older.generations)
    for (NcclGeneration& g : c.generations) {
      if (g.name != o.name) continue;
      replace(g.ll_max, o.ll_max);
      replace(g.ll128_ring, o.ll128_ring);
      replace(g.ll128_tree, o.ll128_tree);
      replace(g.tree, o.tree);
      replace(g.tree_most, o.tree_most);
      replace(g.ll128_tree_most, o.ll128_tree_most);
      replace(g.nvls_tree, o.nvls_tree);
      g.most = o.most.value_or(g.most);
      g.ring_plateau = o.ring_plateau.value_or(g.ring_plateau);
    }
}

/// The first release whose constants are known, and the first with trees between nodes.
constexpr int kOldest = 4;

/// By the second number of their releases.
const std::map<int, NcclConstants>& all_constants() {
  static const std::map<int, NcclConstants> all = [] {
    NcclConstants newest;
    YamlFile file = YamlFile::load(data_folder() / "models" / "nccl.yaml");
    read_file(file, newest);
    std::map<int, NcclConstants> made;
    for (int minor = kOldest; minor <= minor_of(newest.newest); ++minor) {
      NcclConstants& c = made.emplace(minor, newest).first->second;
      c.release = fmt::format("2.{}", minor);
      for (const NcclOlder& older : newest.older)  // the newest of them first
        if (minor <= minor_of(older.until)) apply(c, older);
    }
    return made;
  }();
  return all;
}

}  // namespace

const NcclGeneration& NcclConstants::generation(const std::string& name) const {
  return *std::find_if(generations.begin(), generations.end(),
                       [&](const NcclGeneration& g) { return g.name == name; });
}

const NcclGeneration& NcclConstants::generation_of(const Gpu& gpu) const {
  for (const NcclGeneration& g : generations)
    for (const std::string& called : g.gpus)
      if (is_model(gpu.model, called)) return g;
  constexpr FlopPerSecond kBlackwell{1.5e15};  // dense, in bf16: between the H200 and the B200
  return generation(!gpu.bf16               ? "Volta"
                    : !gpu.fp8              ? "Ampere"
                    : gpu.fp16 < kBlackwell ? "Hopper"
                                            : "Blackwell");
}

const std::vector<std::string>& nccl_releases() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names;
    for (const auto& [minor, constants] : all_constants())
      names.push_back(fmt::format("2.{}", minor));
    return names;
  }();
  return all;
}

/// "did you mean 2.21?; accepted: …", for a version such as 2.21.5.
static std::string like_release(const std::string& version) {
  const std::string near = nccl_release_of(version);
  return fmt::format("{}accepted: {}", near.empty() ? "" : "did you mean " + near + "?; ",
                     fmt::join(nccl_releases(), ", "));
}

const NcclConstants& nccl_constants(const std::string& release) {
  const auto& all = all_constants();
  if (release.empty()) return all.rbegin()->second;
  const auto found = all.find(minor_of(release));
  if (found == all.end() || release != fmt::format("2.{}", found->first))
    throw input_error(fmt::format("NCCL {} is not known", release), like_release(release));
  return found->second;
}

std::string nccl_release_of(const std::string& version) {
  const int minor = minor_of(version);
  if (minor < kOldest) return "";
  return fmt::format("2.{}", std::min(minor, minor_of(nccl_constants().newest)));
}

namespace {

/// Whether a version, "1.13.2", is before another, by their first two numbers; empty is not.
bool is_before(const std::string& version, const std::string& other) {
  const auto numbers = [](const std::string& text) {
    std::array<int, 2> all{};
    const char* at = text.data();
    const char* const end = at + text.size();
    for (int& n : all) {
      at = std::from_chars(at, end, n).ptr;
      if (at < end && *at == '.') ++at;
    }
    return all;
  };
  return !version.empty() && numbers(version) < numbers(other);
}

}  // namespace

bool older_than_compared(const std::string& release, const Gpu& gpu) {
  return is_before(release, nccl_constants().generation_of(gpu).compared_from);
}

Bytes nccl_buffer_with(const std::string& plugin_version) {
  return is_before(plugin_version, nccl_constants().buffers_from) ? kNcclBuffer : Bytes{};
}

std::optional<Seconds> nccl_reported_with(const std::string& plugin_version) {
  const NcclConstants& c = nccl_constants();
  if (is_before(plugin_version, c.reported_from)) return c.reported_earlier;
  return std::nullopt;
}

}  // namespace foreduce
