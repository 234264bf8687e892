#include "scenarios/sweep/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <nlohmann/json.hpp>

#include "input/holds.hpp"
#include "input/field_schema.hpp"
#include "algorithms/core/inner.hpp"
#include "algorithms/core/registry.hpp"
#include "algorithms/extensions/schedule.hpp"
#include "models/caller.hpp"
#include "models/memory.hpp"
#include "models/nccl_constants.hpp"
#include "models/profile.hpp"
#include "models/workload_fields.hpp"
#include "scenarios/sweep/cases.hpp"
#include "scenarios/sweep/cluster_keys.hpp"
#include "scenarios/sweep/elsewhere.hpp"
#include "scenarios/sweep/methods.hpp"
#include "scenarios/sweep/strategies.hpp"
#include "scenarios/sweep/workload_keys.hpp"

namespace foreduce {
namespace {

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names{"nccl", "smddp", "best"};
  for (const Algorithm* a : all_algorithms())
    if (std::find(names.begin(), names.end(), a->name) == names.end()) names.emplace_back(a->name);
  return names;
}
/// Of any collective.
std::vector<std::string> inner_names() {
  std::set<std::string> names;
  for (const Collective c : kCollectives)
    for (const std::string& name : inner_algorithms(c)) names.insert(name);
  return {names.begin(), names.end()};
}
/// Every profile, alone and over each of the other fabrics.
std::vector<std::string> profile_names() {
  const Profiles profiles;
  std::vector<std::string> names = profiles.names();
  for (const std::string& name : profiles.names())
    if (const Profile profile = profiles.load(name); profile.fabric || profile.needs_fabric)
      for (const std::string& fabric : profiles.fabrics())
        if (value_named<Fabric>(fabric) != profile.fabric) names.push_back(name + "+" + fabric);
  names.emplace_back("auto");
  return names;
}

/// Whether an instance type is part of the cluster, or of its servers.
bool in_cluster(const Scenario& s, const std::string& name) {
  const ClusterSpec& c = s.cluster;
  const auto among = [&](const Axis<std::string>& axis) {
    return std::find(axis.values.begin(), axis.values.end(), name) != axis.values.end();
  };
  return among(c.instance) ||
         std::any_of(c.choices.begin(), c.choices.end(),
                     [&](const ClusterChoice& choice) { return among(choice.instance); }) ||
         std::any_of(c.mixed.begin(), c.mixed.end(),
                     [&](const MixedSpec& m) { return m.instance == name; }) ||
         s.allreduce.servers.instance == name;
}

/// The asker's prices and rates: of instance types that are known, each once. A list may be that of
/// other scenarios too, see unused_keys().
void check_own_numbers(FieldReader& f, const Scenario& s) {
  const std::vector<std::string> known = machine_names();
  const auto check_name = [&](const char* key, const char* list, const std::string& name) {
    if (!in_cluster(s, name) && std::find(known.begin(), known.end(), name) == known.end())
      f.problem(key, fmt::format("{}: {} is not part of the cluster", list, name),
                suggest(name, known));
  };
  std::set<std::string> seen;
  for (const UserPrice& p : s.cluster.prices) {
    check_name("cluster", "prices", p.instance);
    if (!seen.insert(p.instance).second)
      f.problem("cluster", fmt::format("prices: {} has two prices", p.instance));
  }
  if (!s.workload) return;
  seen.clear();
  for (const UserRate& m : s.workload->measured) {
    check_name("workload", "measured", m.instance);
    if (!seen.insert(fmt::format("{}|{}|{}", m.instance, m.precision_word(), m.batch)).second)
      f.problem(
          "workload",
          fmt::format("measured: {} is there twice with the same precision and batch", m.instance));
  }
}

/// "workload has no sample …", "12 nodes on p4d": what can only be said when several keys are
/// known.
void check(FieldReader& f, const Scenario& s) {
  const ClusterSpec& c = s.cluster;
  const int ways = (c.instance.values.empty() ? 0 : 1) + (c.choices.empty() ? 0 : 1) +
                   (c.flat ? 1 : 0) + (c.mixed.empty() ? 0 : 1);
  if (ways != 1 && f.has("cluster") && f.is_sound("cluster"))
    f.problem("cluster",
              ways == 0 ? "the cluster has no machines: give instance, choices, switch or mixed"
                        : "give one of instance, choices, switch and mixed, not several");
  check_own_numbers(f, s);
  const auto scatters = [](const std::string& name) {
    const auto& words = sharding_words();
    if (std::find(words.begin(), words.end(), name) == words.end()) return false;  // told elsewhere
    const Sharding sharding = sharding_named(name);
    return sharding == Sharding::zero2 || sharding == Sharding::zero3;
  };
  if (s.workload && s.allreduce.overlap == GradientSums::after_backward &&
      std::any_of(s.workload->sharding.values.begin(), s.workload->sharding.values.end(), scatters))
    f.problem("allreduce",
              "overlap: none is for gradients that may wait; zero2 and zero3 scatter a block's at "
              "once, for whole ones have no room");
  if (s.workload && c.flat)
    f.problem("cluster",
              "a switch is for compare: its ranks do not say how fast they compute; describe a "
              "machine (instance: ./mine.yaml) to "
              "predict");
  if (s.workload && s.workload->samples_per_s) {
    const WorkloadSpec& w = *s.workload;
    const bool several =
        c.choices.size() > 1 || (!c.choices.empty() && c.choices[0].instance.values.size() > 1);
    if (c.instance.values.size() > 1 || several || !c.mixed.empty() || w.model.values.size() > 1 ||
        w.precision.values.size() > 1 || w.batch_per_gpu.values.size() > 1)
      f.problem("workload",
                "samples_per_s is of one model, precision, batch and instance type; this scenario "
                "has several of one of them",
                "e.g. measured: [{ instance: p4d.24xlarge, samples_per_s: 15 }]");
  }
  if (s.workload && (s.workload->samples_per_s || !s.workload->measured.empty()))
    for (const auto& [key, several] :
         {std::pair("recompute", recomputes_of(*s.workload).size() > 1),
          {"framework", s.workload->framework.values.size() > 1}})
      if (several)
        f.problem("workload",
                  fmt::format("{}: a rate of your own was measured in one way; this scenario has "
                              "several",
                              key),
                  "a scenario for each, with its rate");
  if (!s.workload && std::any_of(c.mixed.begin(), c.mixed.end(),
                                 [](const MixedSpec& m) { return m.gpu_speed < 1; }))
    f.problem("cluster", "gpu_speed slows computing, and without a workload nothing computes",
              "nic_share slows messages");
  // Words that mean nothing are refused where they stand.
  const Collective collective = s.messages ? s.messages->collective : Collective::all_reduce;
  // A sharded step has all-gathers and reduce-scatters, each point its own; it says what it lacks.
  const bool sharded =
      s.workload && std::any_of(s.workload->sharding.values.begin(),
                                s.workload->sharding.values.end(), [](const std::string& word) {
                                  return holds(sharding_words(), word) &&
                                         sharding_named(word) != Sharding::none;
                                });
  for (const std::string& name : s.allreduce.algorithm.values)
    if (f.is_sound("messages.collective") && !collectives_of(name).empty() && !sharded &&
        !find_algorithm(name, collective))
      try {
        method_named(name, "", collective);
      } catch (const InputError& e) {
        f.problem("allreduce", words_of(e));
      }
}

}  // namespace

template <class Fields>
void describe(Fields& f, ServersSpec& s) {
  f.required("place", s.place,
             "Where servers run: co-located on the workers' hosts, or dedicated on instances of "
             "their own.",
             one_of<ServerPlace>("place"));
  f.optional("instance", s.instance,
             "Of dedicated servers: a machine of foreduce list instances, or ./file.yaml.",
             instance_choice());
  f.optional("count", s.count, "Of dedicated servers: how many.", Limits::between(1, 65536));
  f.verify([&](FieldReader& r) {
    if (s.place == ServerPlace::dedicated && (!r.has("instance") || !r.has("count")))
      r.problem("place", "dedicated servers need instance and count");
    if (s.place == ServerPlace::co_located && (r.has("instance") || r.has("count")))
      r.problem("place", "instance and count belong to dedicated servers");
  });
}

template <class Fields>
void describe(Fields& f, NcclSpec& n) {
  f.optional("version", n.version,
             "Whose choice of algorithm and protocol it is: a release of NCCL. How messages travel "
             "stays the profile's, but for trees by Simple, whose chunks were shorter up to 2.19. "
             "On three and more nodes of p5 and later AWS's plugin chooses, "
             "whatever the release. Default: the newest that is known; on p3dn, the one that its "
             "profile was measured with.",
             OneOf{"release", nccl_releases(), false, OneOf::Or::patch_release});
  f.optional("algo", n.algo, "As NCCL_ALGO.", OneOf{"algorithm", nccl_algorithm_words()});
  f.optional("proto", n.proto, "As NCCL_PROTO.", one_of<NcclProtocol>("protocol"));
  f.optional("channels", n.channels, "As NCCL_MIN_CTAS and NCCL_MAX_CTAS together.",
             Limits::between(1, kMostNcclChannels));
  f.optional(
      "buffsize", n.buffsize,
      "As NCCL_BUFFSIZE: a message of Simple is an eighth of it at most, and of a ring half. "
      "Default: 8 MiB where aws-ofi-nccl sets it (1.16 and later, on p4d, p5 and p6), else "
      "4 MiB.",
      kNcclBuffers);
}

template <class Fields>
void describe(Fields& f, AllReduceSpec& a) {
  f.optional("algorithm", a.algorithm,
             "How gradients are summed. nccl is what NCCL would choose for each size, smddp what "
             "SageMaker's library does on p4d and p4de, best the fastest of nccl and ours (forest "
             "only if it is named, too); ./schedule.xml is a "
             "schedule of MSCCL's, ./plan.json one of MSCCL++. Default: nccl.",
             OneOf{"algorithm", algorithm_names(), true, OneOf::Or::nothing, forced_in_names()});
  f.optional("inner", a.inner, "Of hierarchical: the algorithm between nodes. Default: ring.",
             OneOf{"inner algorithm", inner_names()});
  f.optional(
      "bucket", a.bucket,
      "Size of the buckets in which gradients travel together, at least 1 KiB. Default: 25 MiB.",
      Limits::at_least(1024));
  f.optional("first_bucket", a.first_bucket, "Size of DDP's first bucket. Default: 1 MiB.");
  f.optional("bucketing", a.bucketing, "How buckets are filled. Default: ddp.",
             one_of<Bucketing>("bucketing"));
  f.optional("gradient_as_bucket_view", a.gradient_as_bucket_view,
             "Of ddp: whether gradients are views of the buckets, as DDP's option of that name has "
             "it. Else a GPU holds them twice. Default: no, as in PyTorch.");
  f.optional("cycle", a.cycle,
             "Of bucketing: horovod: how often it looks for gradients that are ready "
             "(HOROVOD_CYCLE_TIME). Default: 5 ms.",
             Limits::between(1e-5, 60).in("s"));
  f.optional(
      "overlap", a.overlap,
      "What the sums of gradients run beside: backward, as DDP, Horovod and DeepSpeed do it, "
      "or none, where a script sums when backward has ended. Default: backward.",
      one_of<GradientSums>("overlap"));
  f.optional("segments", a.segments,
             "How many segments of the data travel separately. Default: chosen by size.",
             Limits::between(1, 4000));
  f.optional("channels", a.channels, "Rings or trees side by side. Default: one a rail.",
             Limits::between(1, 256));
  f.optional("protocol", a.protocol,
             "With which of NCCL's protocols foreduce's own algorithms send. Default: auto, the "
             "fastest of those that may suit the size.",
             OneOf{"protocol", {"auto", "LL", "LL128", "Simple"}});
  f.optional("nccl", a.nccl,
             "What algorithm nccl is forced to, as by NCCL's environment variables. Default: NCCL "
             "chooses.");
  f.optional("servers", a.servers, "Reduction servers. Default: co-located.");
  f.optional(
      "profile", a.profile,
      "What messages cost: auto (the profile made for the instance type, else the one of the "
      "nearest GPU), ideal "
      "(the data sheet), another that ships, or "
      "./file.yaml. Default: auto.",
      OneOf{"profile", profile_names(), true});
  f.optional(
      "compute_share", a.compute_share,
      "Speed of the backward pass while an all-reduce runs, as a fraction of its full speed.",
      Limits::between(0.01, 1));
  f.verify([&a](FieldReader& r) {
    r.hint({"bucket_size", "bucket_cap", "bucket_cap_mb", "bucket_bytes"},
           "did you mean 'bucket'? e.g. bucket: 25 MiB");
    const auto& names = a.algorithm.values;
    const bool nccl = std::find(names.begin(), names.end(), "nccl") != names.end();
    const bool ours =
        std::any_of(names.begin(), names.end(), [](const std::string& n) { return n != "nccl"; });
    if (r.has("cycle") && a.bucketing != Bucketing::horovod)
      r.problem("cycle", "this is for bucketing: horovod; DDP's buckets travel as they are full");
    if (r.has("first_bucket") && a.bucketing != Bucketing::ddp)
      r.problem("first_bucket", "this is for bucketing: ddp, whose first bucket is smaller");
    if (r.has("nccl") && !nccl) r.problem("nccl", "this forces NCCL, and algorithm has no nccl");
    for (const auto& [key, hint] : {std::pair{"channels", "nccl: { channels: 8 } forces NCCL"},
                                    {"protocol", "nccl: { proto: LL } forces NCCL"},
                                    {"segments", ""}})
      if (r.has(key) && nccl && !ours)
        r.problem(key, "this is for algorithms of foreduce; NCCL chooses its own", hint);
  });
}

template <class Fields>
void describe(Fields& f, MessagesSpec& m) {
  f.required("sizes", m.sizes,
             "Message sizes as nccl-tests has them: what a rank's largest buffer holds.");
  f.optional("collective", m.collective,
             "Which collective, by the names of nccl-tests. Default: all_reduce.",
             one_of<Collective>("collective"));
  f.optional("dtype", m.dtype, "Element type. Default: f32.", one_of<Type>("type"));
  f.optional("bound", m.bound,
             "Which lower bound stands beside the times: groups cuts the cluster into GPUs, nodes "
             "and leaves, exact into whatever is worst, which an optimal schedule reaches. "
             "Default: groups.",
             one_of<BoundKind>("bound"));
  f.optional(
      "timed_by", m.timed_by,
      "Which loop calls the collective: nccl-tests, or torch (torch.distributed from "
      "Python, which waits for every call; models/callers.yaml has what that adds). Default: "
      "nccl-tests.",
      OneOf{"caller", caller_names()});
  f.verify([&m](FieldReader& r) {
    if (m.bound == BoundKind::exact && m.collective == Collective::all_to_all)
      r.problem("bound", "of an all-to-all no exact bound is known: cuts do not tell it",
                "bound: groups");
  });
}

template <class Fields>
void describe(Fields& f, Scenario& s) {
  f.optional("name", s.name,
             "The question, in words; it heads the report. Default: the file's name.");
  f.optional("workload", s.workload, "What is trained, for predict and plan.");
  f.required("cluster", s.cluster,
             "The cluster: instance and nodes, a switch, or mixed instances.");
  f.optional("allreduce", s.allreduce, "How gradients are summed. Default: by NCCL.");
  f.optional("messages", s.messages, "Message sizes, for compare.");
  f.optional("goal", s.goal, "What a plan must reach.");
  f.verify([&](FieldReader& r) { check(r, s); });
}

namespace {

void note_places(const YamlNode& node, const std::string& path,
                 std::map<std::string, Mark>& places) {
  for (const YamlNode::Entry& e : node.entries) {
    const std::string key = path.empty() ? e.key : path + "." + e.key;
    places[key] = e.mark;
    note_places(e.value, key, places);
  }
}

/// A schedule that is missing is a mistake of the scenario; one that is wrong is its own.
void load_schedules_of(const Scenario& scenario) {
  const auto folder = std::filesystem::path(scenario.file).parent_path();
  for (const std::string& name : scenario.allreduce.algorithm.values) {
    std::error_code none;
    if (!names_file(name) || std::filesystem::exists(folder / name, none)) continue;
    throw wrong(scenario, "allreduce.algorithm", fmt::format("there is no file {}", name),
                "a path is relative to the scenario; foreduce list algorithms names those that "
                "need no file");
  }
  load_schedules(scenario.allreduce.algorithm.values, folder);
}

Scenario read_scenario(YamlFile file, const std::vector<std::string>& set = {}) {
  Scenario scenario;
  refuse_other_kinds(file);
  for (const std::string& assignment : set) file.set(assignment);
  note_places(file.root(), "", scenario.places);
  scenario.allreduce.algorithm.values = {"nccl"};
  try {
    read_file(file, scenario);
  } catch (const InputError& e) {
    throw with_assignments(with_places_of_keys(e), set);
  }
  if (scenario.name.empty()) scenario.name = std::filesystem::path(file.name()).stem().string();
  scenario.file = file.name();
  load_schedules_of(scenario);
  scenario.text = file.text();
  for (const std::string& assignment : set) scenario.text += "# --set " + assignment + "\n";
  scenario.hash = set.empty() ? sha1(file.text())
                              : sha1(fmt::format("{}|{}", file.text(), fmt::join(set, "|")));
  return scenario;
}

}  // namespace

/// Whether a point of the scenario is one that the asker measured.
static bool is_asked(const Scenario& s, const UserRate& m) {
  const auto among = [](const auto& axis, const auto& value) {
    return std::find(axis.values.begin(), axis.values.end(), value) != axis.values.end();
  };
  return in_cluster(s, m.instance) &&
         (!m.precision || among(s.workload->precision, *m.precision)) &&
         (m.batch == 0 || among(s.workload->batch_per_gpu, m.batch));
}

namespace {

/// Keys that none of the strategies takes.
void add_unused_of_strategies(std::vector<std::string>& unused, const Scenario& s) {
  const auto strategies = strategies_of(*s.workload);
  const auto add_given = [&](std::initializer_list<const char*> keys) {
    for (const char* key : keys)
      if (s.places.contains(key)) unused.emplace_back(key);
  };
  const auto any = [&](const auto& is) {
    return std::any_of(strategies.begin(), strategies.end(), is);
  };
  if (!any([](const Strategy& one) { return unplaced(one).is_ddp(); })) {
    if (!s.allreduce.bucket.values.empty()) unused.emplace_back("allreduce.bucket");
    // Units travel, not buckets.
    add_given(
        {"allreduce.bucketing", "allreduce.first_bucket", "allreduce.gradient_as_bucket_view"});
  }
  if (!any([](const Strategy& one) { return one.sharding == Sharding::zero3; }))
    add_given({"workload.prefetch", "workload.reshard_after_forward", "workload.communicators"});
  const std::vector<std::string>& forced = s.allreduce.nccl.algo.values;
  const auto is_tree = [](const std::string& algo) { return algo.ends_with("Tree"); };
  if (!forced.empty() && std::all_of(forced.begin(), forced.end(), is_tree) && !any(all_reduces))
    unused.emplace_back("allreduce.nccl.algo");  // NCCL gathers and scatters by no tree
  const std::vector<int>& accumulated = s.workload->accumulation.values;
  if (s.places.contains("workload.no_sync") && s.workload->global_batch.values.empty() &&
      std::all_of(accumulated.begin(), accumulated.end(), [](int n) { return n == 1; }))
    unused.emplace_back("workload.no_sync");
  const auto has_loss = [&](const std::string& model) {
    return has_loss_over_vocabulary(workload_of(s, model, Framework::pytorch));
  };
  if (s.places.contains("workload.fused_loss") &&
      std::none_of(s.workload->model.values.begin(), s.workload->model.values.end(), has_loss))
    unused.emplace_back("workload.fused_loss");
}

}  // namespace

std::vector<std::string> unused_keys(const Scenario& s, Asked asked) {
  std::vector<std::string> unused;
  const auto any = [&](auto matches) {
    return std::any_of(s.allreduce.algorithm.values.begin(), s.allreduce.algorithm.values.end(),
                       [&](const std::string& name) {
                         for (const Collective c : kCollectives)
                           if (const Algorithm* a = find_algorithm(name, c); a && matches(*a))
                             return true;
                         return false;
                       });
  };
  for (const std::string& name : s.allreduce.algorithm.values)
    for (const std::string& said : without_effect(name)) unused.push_back(name + " " + said);
  if (asked != Asked::messages && s.messages) unused.emplace_back("messages");
  if (asked != Asked::plan && s.goal) unused.emplace_back("goal");
  if (asked == Asked::messages && s.workload) unused.emplace_back("workload");
  for (const char* of_steps : {"allreduce.bucket", "allreduce.bucketing", "allreduce.first_bucket",
                               "allreduce.cycle", "allreduce.overlap", "allreduce.compute_share"})
    if (asked == Asked::messages && s.places.contains(of_steps)) unused.emplace_back(of_steps);
  if (asked != Asked::messages && s.workload) add_unused_of_strategies(unused, s);
  for (const char* of_leaves : {"cluster.fabric.placement", "cluster.fabric.spine_latency"})
    if (s.places.contains(of_leaves) && s.cluster.fabric.nodes_per_leaf == 0)
      unused.emplace_back(of_leaves);  // no leaves among which nodes could be spread
  for (const UserPrice& p : s.cluster.prices)
    if (!in_cluster(s, p.instance))
      unused.push_back(fmt::format("cluster.prices of {}", p.instance));
  if (s.workload && asked != Asked::messages)
    for (const UserRate& m : s.workload->measured)
      if (!is_asked(s, m)) {
        const std::string batch = m.batch > 0 ? fmt::format(" at batch {}", m.batch) : "";
        unused.push_back(fmt::format("workload.measured of {}{}{}{}", m.instance,
                                     m.precision ? " in " : "", m.precision_word(), batch));
      }
  if (s.allreduce.inner.values != std::vector<std::string>{kUsualInner} &&
      !any([](const Algorithm& a) { return a.takes_inner; }))
    unused.emplace_back("allreduce.inner");
  if (s.allreduce.segments.values != std::vector<int>{0} &&
      !any([](const Algorithm&) { return true; }))
    unused.emplace_back("allreduce.segments");
  if (s.allreduce.protocol.values != std::vector<std::string>{"auto"} &&
      !any([](const Algorithm&) { return true; }))
    unused.emplace_back("allreduce.protocol");
  if (s.allreduce.servers.place == ServerPlace::dedicated &&
      !any([](const Algorithm& a) { return a.uses_servers; }))
    unused.emplace_back("allreduce.servers");
  return unused;
}

InputError wrong(const Scenario& scenario, std::string key, std::string message, std::string hint) {
  auto at = scenario.places.end();
  for (std::string above = key; at == scenario.places.end() && !above.empty();
       above.resize(above.rfind('.') == std::string::npos ? 0 : above.rfind('.')))
    at = scenario.places.find(above);
  const Mark mark = at == scenario.places.end() ? Mark{0, 0} : at->second;
  return InputError(Problem{scenario.file, mark.line, mark.column, std::move(key),
                            std::move(message), std::move(hint), ""});
}

Scenario load_scenario(const std::filesystem::path& path, const std::vector<std::string>& set) {
  std::error_code none;
  const std::filesystem::path shipped = data_folder() / path;
  const bool ships = path.is_relative() && *path.begin() == "scenarios" &&
                     !std::filesystem::exists(path, none) && std::filesystem::exists(shipped, none);
  if (path != "-") return read_scenario(YamlFile::load(ships ? shipped : path), set);
  return read_scenario(YamlFile::read("standard input", std::cin), set);
}
Scenario parse_scenario(const std::string& name, const std::string& text) {
  return read_scenario(YamlFile::parse(name, text));
}

nlohmann::ordered_json workload_schema() {
  Workload workload;
  return SchemaFields::of(workload);
}

nlohmann::ordered_json scenario_schema() {
  nlohmann::ordered_json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                                   {"title", "foreduce scenario"}};
  Scenario scenario;
  schema.update(SchemaFields::of(scenario));
  return schema;
}

}  // namespace foreduce
