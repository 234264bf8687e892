#include "scenarios/sweep/cases.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "input/counted.hpp"
#include "models/gpu_names.hpp"
#include "models/rank_layout.hpp"

namespace foreduce {
namespace {

FabricSpec fabric_of(const FabricFields& f, double oversubscription, Placement placement) {
  FabricSpec fabric;
  fabric.nodes_per_leaf = f.nodes_per_leaf;
  fabric.oversubscription = oversubscription;
  fabric.spine_latency = f.spine_latency;
  fabric.placement = placement;
  fabric.placement_group = f.placement_group;
  return fabric;
}

/// By which the slowest of several machines is found: to others, then inside.
std::pair<BytesPerSecond, BytesPerSecond> bandwidth_of(const Machine& m) {
  return {m.nic.bandwidth * m.nic.count,
          m.nvlink ? m.nvlink->bandwidth * m.nvlink->links : BytesPerSecond{0}};
}

}  // namespace

void QuestionHash::add(const std::filesystem::path& file) {
  value_ = sha1(value_ + read_text(file));
}

bool have_as_many_gpus(const Cluster& cluster) {
  for (int n = 1; n < cluster.worker_nodes(); ++n)
    if (cluster.node(n).machine().gpus() != cluster.node(0).machine().gpus()) return false;
  return true;
}

std::string cluster_words(const std::string& nodes, const std::string& instance) {
  const std::size_t digits = instance.find_first_not_of("0123456789");
  const bool mixed = digits > 0 && digits < instance.size() && instance[digits] == 'x';
  return mixed ? instance : fmt::format("{} x {}", nodes, instance);
}

Clusters::Clusters(const Scenario& scenario, QuestionHash& hash, const Change& change)
    : scenario_(scenario), hash_(hash), change_(change) {
  if (dedicated_servers()) machine(scenario.allreduce.servers.instance);
  add_instances();
  if (scenario.cluster.flat) add_switches();
  if (!scenario.cluster.mixed.empty()) add_mixed();
}

std::shared_ptr<const Machine> Clusters::machine(const std::string& name) {
  auto& known = machines_[name];
  if (known) return known;
  const auto folder = std::filesystem::path(scenario_.file)
                          .parent_path();  // paths are relative to the scenario's file
  Machine read = machine_named(name, folder);
  for (const UserPrice& own : scenario_.cluster.prices)
    if (own.instance == name) read.price = Price{own.price, "the scenario"};
  if (change_.machine) change_.machine(read);
  known = std::make_shared<const Machine>(std::move(read));
  hash_.add(known->file);
  for (const auto& base : known->bases) hash_.add(base);
  return known;
}

Clusters::Part Clusters::part_of(const std::string& name, int gpus) {
  const auto whole = machine(name);
  if (gpus == 0 || gpus == whole->gpus()) return {whole, name};
  if (gpus > whole->gpus())
    throw wrong(scenario_,
                scenario_.cluster.mixed.empty() ? "cluster.gpus_per_node" : "cluster.mixed",
                fmt::format("{} has {}, not {}", name, counted(whole->gpus(), "GPU"), gpus));
  auto& part = parts_[{name, gpus}];
  if (!part) part = std::make_shared<const Machine>(whole->with_gpus(gpus));
  return {part, fmt::format("{} ({})", name, counted(gpus, "GPU"))};
}

void Clusters::add(const std::string& instance, const Nodes& nodes) {
  std::vector<std::pair<const Machine*, std::size_t>> runs;
  for (const auto& node : nodes)
    if (!runs.empty() && runs.back().first == node.get()) ++runs.back().second;
    else runs.emplace_back(node.get(), 1);
  const FabricFields& fabric = scenario_.cluster.fabric;
  for (const Placement placement : fabric.placement.values)
    for (const double oversubscription : fabric.oversubscription.values) {
      ClusterCase& c = cases_.emplace_back();
      c.instance = instance;
      c.nodes = static_cast<int>(nodes.size());
      c.oversubscription = oversubscription;
      c.placement = placement;
      // A value that an axis names twice is the same cluster: its questions are asked once.
      auto& known = made_[{instance, runs, oversubscription, placement}];
      try {
        if (!known)
          known = std::make_shared<Cluster>(nodes, fabric_of(fabric, oversubscription, placement));
        c.cluster = known;
      } catch (const InputError&
                   e) {  // one machine of a sweep that does not fit is not the end of the others
        c.error = words_of(e);
      }
    }
}

void Clusters::add_instances() {
  const ClusterSpec& cluster = scenario_.cluster;
  std::vector<ClusterChoice> choices = cluster.choices;
  if (choices.empty()) choices.push_back({cluster.instance, cluster.nodes});
  const std::vector<int> parts =
      cluster.gpus_per_node.values.empty() ? std::vector{0} : cluster.gpus_per_node.values;
  for (const ClusterChoice& choice : choices)
    for (const std::string& instance : choice.instance.values)
      for (const int gpus : parts) {
        const Part part = part_of(instance, gpus);
        for (const int n : choice.nodes.values)
          add(part.name, Nodes(static_cast<std::size_t>(n), part.machine));
      }
}

void Clusters::add_switches() {
  const SwitchSpec& flat = *scenario_.cluster.flat;
  for (const BytesPerSecond bandwidth : flat.bandwidth.values)
    for (const Seconds latency : flat.latency.values)
      for (const BytesPerSecond reduce : flat.reduce_bandwidth.values)
        for (const int ranks : flat.ranks.values) {
          const std::string reduces =
              flat.reduce_bandwidth.values.size() > 1 ? ", reduces " + to_text(reduce) : "";
          auto& port = switches_[{bandwidth, latency, reduce}];
          if (!port) {
            Machine made = Machine::flat(bandwidth, latency, reduce);
            if (change_.machine) change_.machine(made);
            port = std::make_shared<const Machine>(std::move(made));
          }
          add(fmt::format("switch {} {}{}", to_text(bandwidth), to_text(latency), reduces),
              Nodes(static_cast<std::size_t>(ranks), port));
        }
}

Clusters::Part Clusters::with_slow_links(const Part& part, const std::vector<SlowLink>& links) {
  if (links.empty()) return part;
  std::string names;
  for (const SlowLink& s : links)
    names += fmt::format("{}{} at {:.3g} %", names.empty() ? "" : ", ", s.device, 100 * s.share);
  return {std::make_shared<const Machine>(part.machine->with_slow_links(links)),
          fmt::format("{} ({})", part.name, names)};
}

void Clusters::add_mixed() {
  Nodes nodes;
  std::string name;
  std::optional<Part> weakest;         // of least bandwidth, without slow links
  std::map<std::string, double> slow;  // links of any node: their share
  for (const MixedSpec& m : scenario_.cluster.mixed) {
    Part part = part_of(m.instance, m.gpus);
    if (m.nic_share < 1) {
      Machine degraded = *part.machine;
      degraded.nic.bandwidth = degraded.nic.bandwidth * m.nic_share;
      part = {std::make_shared<const Machine>(std::move(degraded)),
              fmt::format("{} (NICs at {:.3g} %)", part.name, 100 * m.nic_share)};
    }
    if (!weakest || bandwidth_of(*part.machine) < bandwidth_of(*weakest->machine)) weakest = part;
    for (const SlowLink& s : m.slow_links) {
      double& share = slow.try_emplace(s.device, 1).first->second;
      share = std::min(share, s.share);
    }
    try {
      part = with_slow_links(part, m.slow_links);
    } catch (const InputError& e) {  // a device that the instance type does not have
      throw wrong(scenario_, "cluster.mixed",
                  fmt::format("{}: {}", m.instance, e.problems().front().message));
    }
    if (m.gpu_speed < 1) part.name += fmt::format(" (GPUs at {:.3g} %)", 100 * m.gpu_speed);
    nodes.insert(nodes.end(), static_cast<std::size_t>(m.nodes), part.machine);
    name += fmt::format("{}{}x{}", name.empty() ? "" : "+", m.nodes, part.name);
  }
  add(name, nodes);
  std::vector<SlowLink> all_slow;
  for (const auto& [device, share] : slow) all_slow.push_back({device, share});
  for (ClusterCase& c : cases_) {
    if (!c.cluster || c.cluster->homogeneous()) continue;
    try {
      const Part as = with_slow_links(*weakest, all_slow);
      c.weakest = as.name;
      c.as_weakest =
          std::make_shared<Cluster>(Nodes(nodes.size(), as.machine), c.cluster->fabric());
    } catch (const InputError&) {  // it has no such link, so no node stands for all
    }
  }
}

std::shared_ptr<const Cluster> Clusters::with_servers(const ClusterCase& c, const Method& method) {
  if (!method.uses_servers()) return c.cluster;
  auto& known = with_servers_[{c.cluster, dedicated_servers() ? method.servers : 0}];
  if (known) return known;
  ServerSpec servers;
  servers.co_located = !dedicated_servers();
  if (dedicated_servers()) {
    servers.dedicated = machine(scenario_.allreduce.servers.instance);
    servers.dedicated_count = method.servers;
  }
  Nodes nodes;
  for (int n = 0; n < c.cluster->worker_nodes(); ++n)
    nodes.push_back(std::shared_ptr<const Machine>(c.cluster, &c.cluster->node(n).machine()));
  known = std::make_shared<Cluster>(nodes, c.cluster->fabric(), servers);
  return known;
}

std::shared_ptr<const Layout> Clusters::layout(const std::shared_ptr<const Cluster>& cluster) {
  auto& known = layouts_[cluster];
  if (!known) known = std::make_shared<const Layout>(rank_layout(*cluster));
  return known;
}

const std::optional<ExactCut>& Clusters::exact_cut_of(const std::shared_ptr<const Cluster>& cluster,
                                                      Collective collective) {
  const auto [at, fresh] = exact_cuts_.try_emplace({cluster, collective});
  if (fresh) at->second = exact_cut(*cluster, collective);
  return at->second;
}

const ClusterCase* Clusters::one_node(const ClusterCase& c) {
  if (!c.cluster->homogeneous()) return nullptr;
  if (c.nodes == 1 && c.cluster->leaves() == 0) return &c;
  auto& known = single_nodes_[c.instance];
  if (!known) {
    known = std::make_unique<ClusterCase>();
    known->instance = c.instance;
    known->nodes = 1;
    known->cluster = std::make_shared<Cluster>(
        Nodes{std::shared_ptr<const Machine>(c.cluster, &c.cluster->node(0).machine())},
        FabricSpec{});
  }
  return known.get();
}

TransportProfiles::TransportProfiles(const Scenario& scenario, QuestionHash& hash,
                                     const Change& change)
    : change_(change) {
  const auto models = data_folder() / "models";
  for (const std::string& name : shipped_.names()) hash.add(models / "profiles" / (name + ".yaml"));
  for (const std::string& name : shipped_.fabrics())
    hash.add(models / "fabrics" / (name + ".yaml"));
  for (const char* file : {"nccl.yaml", "smddp.yaml", "training.yaml", "uncertainty.yaml",
                           "callers.yaml", "ofi_tuner_regions.csv"})
    hash.add(models / file);
  for (const Algorithm* a : all_algorithms())
    if (!a->origin.empty()) hash.add(a->origin);
  for (const std::string& name : scenario.allreduce.profile.values) {
    if (!names_file(name)) continue;
    const auto file = std::filesystem::path(scenario.file).parent_path() / name;
    Profile own = load_profile(file);
    if (change_.profile) change_.profile(own);
    known_[name] = std::make_shared<const Profile>(std::move(own));
    hash.add(file);
  }
}

namespace {

/// What a profile depends on that ships: of a file that begins with an instance type its latencies,
/// too.
std::string profile_key(const std::string& name, const Machine& m) {
  std::string key =
      fmt::format("{} {} {} {}", name, m.type(), to_text(m.fabric()), m.gpu ? m.gpu->model : "");
  if (!m.like.empty())
    key += fmt::format(" {} {} {}", m.nic.latency.value, m.nvlink ? m.nvlink->latency.value : 0.0,
                       m.pcie ? m.pcie->latency.value : 0.0);
  return key;
}

}  // namespace

std::shared_ptr<const Profile> TransportProfiles::get(const std::string& name,
                                                      const Cluster& cluster) {
  const Machine& machine = cluster.weakest().machine();
  auto& known = known_[names_file(name) ? name : profile_key(name, machine)];
  if (!known) {
    Profile profile = name == "auto" ? shipped_.nearest_to(machine) : shipped_.load(name);
    if (profile.needs_fabric)
      profile = over_fabric(std::move(profile), shipped_.load_fabric(to_text(machine.fabric())));
    if (name != "auto") profile = with_latencies_of(std::move(profile), machine);
    if (change_.profile) change_.profile(profile);
    known = std::make_shared<const Profile>(std::move(profile));
  }
  return known;
}

std::string TransportProfiles::name(const std::string& asked,
                                    const std::shared_ptr<const Cluster>& cluster) {
  return asked == "auto" && cluster ? get(asked, *cluster)->name : asked;
}

SweepContext on_one_node(SweepContext context, const ClusterCase& node) {
  const auto rails = static_cast<int>(context.clusters.layout(node.cluster)->channels.size());
  context.channels = std::min(context.channels, rails);
  return context;
}

std::vector<Candidate> candidates_of(const Method& method, const ClusterCase& c,
                                     const SweepContext& context) {
  Clusters& clusters = context.clusters;
  const auto made = [&](const Method& m) {
    const auto cluster = clusters.with_servers(c, m);
    Candidate one{m, cluster, context.profiles.get(m.profile, *c.cluster), clusters.layout(cluster),
                  context.channels};
    if (cluster != c.cluster) {
      one.workers = c.cluster;
      one.workers_layout = clusters.layout(c.cluster);
    }
    return one;
  };
  std::vector<Candidate> all;
  // By each protocol, where none is asked for.
  const auto add = [&](Candidate one) {
    const std::size_t protocols = one.method.kind == MethodKind::ours && !one.method.protocol
                                      ? one.profile->protocols.size()
                                      : 1;
    for (one.protocol_place = 0; one.protocol_place < std::max<std::size_t>(1, protocols);
         ++one.protocol_place)
      all.push_back(one);
  };
  if (method.kind != MethodKind::best) {
    Candidate one = made(method);
    if (const std::string why = one.unsupported(); !why.empty()) throw input_error(why);
    add(std::move(one));
    return all;
  }
  for (Method& m : usable_methods(c, method.profile, context, method.collective).methods)
    add(made(m));
  if (all.empty()) throw input_error("no algorithm can run here");
  return all;
}

UsableMethods usable_methods(const ClusterCase& c, const std::string& profile,
                             const SweepContext& context, Collective collective) {
  Clusters& clusters = context.clusters;
  UsableMethods usable;
  const auto add = [&](const std::string& name, std::string why) {
    Method method = method_named(name, "", collective);
    method.profile = profile;
    try {
      if (const auto cluster = clusters.with_servers(c, method); why.empty())
        why = Candidate{method, cluster, context.profiles.get(profile, *c.cluster),
                        clusters.layout(cluster), context.channels}
                  .unsupported();
    } catch (const InputError& e) {  // no place for servers, which nobody asked for
      if (!method.uses_servers()) throw;
      why = e.what();
    }
    if (why.empty()) usable.methods.push_back(method);
    else usable.left_out.push_back(name + ": " + why);
  };
  if (c.cluster->node(0).machine().gpu) add("nccl", "");
  for (const Algorithm* a : algorithms(collective)) {
    const bool named = std::count(context.named.begin(), context.named.end(), a->name) > 0;
    std::string why = named ? "" : why_by_name_only(*a, *c.cluster);
    if (a->uses_servers && clusters.dedicated_servers())
      why = "with dedicated servers it must be asked for by name";
    add(std::string(a->name), why);
  }
  return usable;
}

std::size_t AxisProduct::size() const {
  std::size_t all = 1;
  for (const std::size_t n : sizes_) all *= n;
  return all;
}

std::vector<std::size_t> AxisProduct::at(std::size_t number) const {
  std::vector<std::size_t> index(sizes_.size());
  for (std::size_t axis = sizes_.size(); axis-- > 0; number /= sizes_[axis])
    index[axis] = number % sizes_[axis];
  return index;
}

namespace {

/// Who names a model as Hugging Face does means one that ships, or has its config.json there.
[[noreturn]] void refuse_missing_file(const Scenario& scenario, const std::string& model) {
  const std::string stem = std::filesystem::path(model).stem().string();
  std::string word = stem;
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  throw wrong(scenario, "workload.model", fmt::format("there is no file {}", model),
              suggest(word, Workloads().names()) +
                  fmt::format("\n  a model's config.json makes another: foreduce workload "
                              "from-config config.json -o {0}.yaml, and model: ./{0}.yaml",
                              stem));
}

}  // namespace

Workload workload_of(const Scenario& scenario, const std::string& model, Framework framework) {
  const auto file = std::filesystem::path(scenario.file).parent_path() / model;
  std::error_code none;
  if (names_file(model) && !std::filesystem::exists(file, none))
    refuse_missing_file(scenario, model);
  Workload workload = names_file(model) ? Workloads::load_file(file) : Workloads().load(model);
  if (!scenario.workload) return workload;
  add_length(workload, scenario.workload->sample);
  workload.cuda_graphs = scenario.workload->cuda_graphs;
  workload.fused_loss = scenario.workload->fused_loss;
  workload.trainable = scenario.workload->trainable;
  workload.framework = framework;
  return workload;
}

Workload Clusters::workload(const std::string& model, Framework framework) const {
  Workload workload = workload_of(scenario_, model, framework);
  std::vector<std::shared_ptr<const Cluster>> clusters;
  for (const ClusterCase& c : cases_) clusters.push_back(c.cluster);
  require_known_gpus(workload, clusters);
  return workload;
}

std::string sample_of(const Scenario& scenario, const Workload& workload) {
  const std::string& asked = scenario.workload->sample;
  const Variant* variant = workload.variant(asked);
  if (!variant) {
    const bool tokens = tokens_of(asked) >= 1 && tokens_of(workload.variants.front().sample) > 0;
    const std::string length =
        !tokens ? ""
        : workload.any_length()
            ? "\n  another whole number of tokens is accepted, up to 100 million"
            : fmt::format(
                  "\n  a shorter length is accepted; for a longer one make a workload: foreduce "
                  "workload from-config config.json --sequence {:.0f} -o long.yaml",
                  tokens_of(asked));
    const bool plain = asked.find_first_not_of("0123456789") == std::string::npos;
    throw wrong(scenario, "workload.sample",
                fmt::format("{} has no sample '{}'", workload.name, asked),
                (plain ? fmt::format("did you mean '{} tokens'?\n  ", asked) : "") +
                    workload.suggest_sample(asked) + length);
  }
  return variant->sample;
}

std::shared_ptr<const Cluster> only_cluster(const Scenario& scenario) {
  QuestionHash hash(scenario.hash);
  const Clusters clusters(scenario, hash);
  if (clusters.cases().size() != 1)
    throw wrong(
        scenario, "cluster",
        fmt::format("one cluster is needed here, and this describes {}", clusters.cases().size()),
        "no lists in cluster");
  if (!clusters.cases().front().cluster)
    throw wrong(scenario, "cluster", clusters.cases().front().error);
  return clusters.cases().front().cluster;
}

}  // namespace foreduce
