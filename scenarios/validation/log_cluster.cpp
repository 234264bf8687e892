#include "scenarios/validation/log_cluster.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "input/counted.hpp"
#include "input/files.hpp"
#include "input/holds.hpp"
#include "input/text_stream.hpp"
#include "topologies/pci_ids.hpp"

namespace foreduce {
namespace {

/// The words of a GPU's name, as CUDA prints it or a machine file does.
std::vector<std::string> words_of_gpu(std::string text) {
  text = with_family_joined(std::move(text));
  std::replace(text.begin(), text.end(), '-', ' ');
  TextStream in(text);
  std::vector<std::string> words(std::istream_iterator<std::string>(in), {});
  // "GH200 120GB" and "GH200 480GB" tell the memory of the Grace beside it.
  if (holds(words, "GH200"))
    std::erase_if(
        words, [](const std::string& w) { return w == "120GB" || w == "240GB" || w == "480GB"; });
  return words;
}
/// Whether a GPU is a card for a PCIe slot: "A100-PCIE-40GB", "H100 NVL".
bool is_pcie_card(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& w) { return w == "PCIe" || w == "PCIE" || w == "NVL"; });
}
/// Whether the family is the same ("H100").
bool same_gpu(const std::vector<std::string>& named, const std::string& model) {
  const auto words = words_of_gpu(model);
  return !words.empty() && std::find(named.begin(), named.end(), words[0]) != named.end();
}

/// The same, and no card for a slot taken for a module, which has NVLink.
bool same_kind(const std::vector<std::string>& named, const std::string& model) {
  // Modules of another generation are in other machines: V100-SXM3 in DGX-2.
  const auto ours = words_of_gpu(model);
  const auto is_module = [](const std::string& w) { return w.starts_with("SXM") && w != "SXM"; };
  const auto module = std::find_if(named.begin(), named.end(), is_module),
             our_module = std::find_if(ours.begin(), ours.end(), is_module);
  if (module != named.end() && our_module != ours.end() && *module != *our_module) return false;
  return same_gpu(named, model) && !(is_pcie_card(named) && model.find("SXM") != std::string::npos);
}

std::string memory_of(const std::vector<std::string>& words) {
  const auto found = std::find_if(words.begin(), words.end(), [](const std::string& w) {
    return w.size() > 2 && w.ends_with("GB");
  });
  return found == words.end() ? std::string() : *found;
}

/// Which instances have that GPU, as CUDA names it ("Tesla V100-SXM2-32GB", "NVIDIA H100 80GB
/// HBM3"), at least so many, and EFA if the log shows it.
std::vector<std::string> candidates(const std::string& gpu, int per_node, const NcclFacts& log) {
  const Catalogue catalogue;
  std::vector<std::string> all, exact;
  for (const std::string& name : catalogue.names()) {
    const Machine m = catalogue.load(name);
    if (!m.gpu || m.gpus() < per_node || (log.network == NcclNetwork::efa && m.nic.efa == 0))
      continue;
    if (!is_gpu_named(gpu, m.gpu->model)) continue;
    if (name == log.platform) return {name};
    all.push_back(name);
    if (m.gpus() == per_node) exact.push_back(name);
  }
  // One GPU a node is a common test of larger nodes.
  return exact.empty() || per_node == 1 ? all : exact;
}

/// Of these instance types, those with as many NICs as the plugin found, where any has.
std::vector<std::string> with_as_many_nics(std::vector<std::string> names, const NcclFacts& log) {
  const Catalogue catalogue;
  std::vector<std::string> kept;
  for (const std::string& name : names)
    if (log.most_nics && catalogue.load(name).nic.count == *log.most_nics) kept.push_back(name);
  return kept.empty() ? names : kept;
}

/// A machine outside of EC2 with RDMA and so many of these GPUs a node, and as many cards as the
/// log counts: of the GPU's memory if there is one, else of another. Where none has as many cards,
/// the only one with such GPUs. Nothing where none is known, or several are. `per_node` 0: not
/// known, but that it divides the ranks.
std::optional<Machine> elsewhere_with(const NcclTable& t, int per_node) {
  std::vector<Machine> alike, as_many_cards, of_family;
  const auto named = words_of_gpu(t.gpu);
  const auto take = [&](bool more_gpus) {
    for (const std::string& name : machines_elsewhere()) {
      Machine m = machine_named(name);
      if (m.cpu_only() || m.fabric() != Fabric::rdma || !same_kind(named, m.gpu->model)) continue;
      if (more_gpus      ? m.gpus() <= per_node
          : per_node > 0 ? m.gpus() != per_node
                         : t.ranks % m.gpus() != 0)
        continue;
      const bool same = is_gpu_named(t.gpu, m.gpu->model),
                 cards = t.facts.most_nics && m.nic.count == *t.facts.most_nics;
      if (same && cards) as_many_cards.push_back(m);
      if (cards) of_family.push_back(m);
      if (same) alike.push_back(std::move(m));
    }
  };
  take(false);
  if (per_node > 0 && of_family.empty() && alike.empty()) take(true);  // a part of larger nodes
  for (const auto* some : {&as_many_cards, &of_family, &alike})
    if (some->size() == 1) return some->front();
  return std::nullopt;
}

/// What the log itself says of how NCCL ran, for where no machine is known to judge it by.
std::string told_by(const NcclFacts& facts) {
  std::vector<std::string> told;
  if (facts.network == NcclNetwork::sockets) told.emplace_back("it sends over TCP sockets");
  if (facts.gpudirect == false)
    told.emplace_back("GPUDirect RDMA is off, so that bytes go through the host's memory");
  if (facts.over_shm)
    told.emplace_back("GPUs of a host exchange through its memory (SHM), not directly");
  for (const auto& [name, value] : facts.settings)
    told.push_back(fmt::format("{}={} is set", name, value));
  return told.empty() ? "" : fmt::format("\nthe log says: {}", fmt::join(told, "; "));
}

/// "--instance a or b": what ships outside of EC2 with such GPUs; else how to describe a machine.
std::string other_machines(const std::string& gpu) {
  std::vector<std::string> names;
  for (std::string& name : machines_elsewhere())
    if (const Machine m = machine_named(name); m.gpu && is_gpu_named(gpu, m.gpu->model))
      names.push_back(std::move(name));
  return names.empty()
             ? "describe the machine in a file (docs/machine.md), or make one of what nvidia-smi "
               "topo -m prints (foreduce topology import topo.txt), and give --instance ./file.yaml"
             : fmt::format(
                   "such GPUs are in --instance {}; docs/machine.md says how to describe "
                   "another machine",
                   fmt::join(names, " or "));
}

/// The types of the same family: "g7e.12xlarge, g7e.48xlarge"; of none how to list all.
std::string alike_words(const std::string& type, const std::vector<std::string>& names) {
  const std::string family = type.substr(0, type.find('.') + 1);
  std::vector<std::string> alike;
  std::copy_if(names.begin(), names.end(), std::back_inserter(alike),
               [&](const std::string& name) { return name.starts_with(family); });
  return alike.empty() ? "a type that `foreduce list instances` names"
                       : fmt::format("one of {}", fmt::join(alike, ", "));
}

/// Where the GPUs of a machine are on the PCI bus, of which every host of its kind has the same.
struct Buses {
  std::string_view machine;  ///< "p5."; "a3": Google's, which foreduce does not know
  std::string_view buses;
};
/// aws/aws-ofi-nccl topology/p5.48xl-topo.xml and p4d-24xl-topo.xml; lspci and nvidia-smi of p5
/// instances; nccl-tests on Google's a3-megagpu-8g and a3-highgpu-8g
/// (lessizzmore/create-a3mega-ztan-fork).
constexpr Buses kBuses[] = {{"p5.", "4f 60 70 80 90 a0 b0 c0"},
                            {"p5.", "53 64 75 86 97 a8 b9 ca"},
                            {"p4d.", "10 20 90 a0"},
                            {"p4de.", "10 20 90 a0"},
                            {"a3", "04 05 0b 0c 84 85 8b 8c"}};

/// Whether a log may be of that instance type, by its GPUs' addresses. A plugin's name alone is no
/// sign of EC2, for other clouds and HPE's Slingshot have it too. Throws InputError where they are
/// those of Google's A3.
bool may_be(const std::string& type, const NcclLog& log, const NcclTable& t) {
  const auto has_buses = [&](const Buses& b) {
    return std::all_of(t.gpu_buses.begin(), t.gpu_buses.end(), [&](const std::string& bus) {
      return b.buses.find(bus) != std::string_view::npos;
    });
  };
  const auto is_of_type = [&](const Buses& b) { return type.starts_with(b.machine); };
  if (t.gpu_buses.empty() || t.facts.efa_named ||
      std::none_of(std::begin(kBuses), std::end(kBuses), is_of_type))
    return true;
  const auto known = std::find_if(std::begin(kBuses), std::end(kBuses), [&](const Buses& b) {
    return (is_of_type(b) || b.machine == "a3") && has_buses(b);
  });
  if (known == std::end(kBuses)) return false;
  if (known->machine != "a3") return true;
  if (constexpr std::size_t kAll = 8; t.gpu_buses.size() == kAll)
    throw table_error(log, t,
                      "its GPUs have the PCI addresses of Google's A3, and no machine that ships "
                      "has such a network",
                      "describe the machine in a file (docs/machine.md) and give --instance "
                      "./file.yaml; on hgx-h100-ib each GPU has a card of 400 Gb/s");
  return false;
}

constexpr const char* kOtherOrder =
    "the log lists its ranks behind its rows: its lines seem to be in another order than they were "
    "printed";

/// Whether a host of the machine has so many GPUs; of NVLink domains several hosts are one machine.
bool is_host_of(const Machine& m, int gpus) {
  return m.gpus() == gpus || (m.nvlink && m.gpus() == gpus * m.nvlink->hosts);
}

/// The instance type that the log names, or that has its GPUs, so many of them a node. Throws
/// InputError where none or several have.
std::string instance_of_log(const NcclLog& log, const NcclTable& t, int per_node,
                            std::vector<Remark>& remarks) {
  if (const std::string& type = t.facts.platform; t.mixed.empty() && !type.empty()) {
    const Catalogue catalogue;
    if (!holds(catalogue.names(), type))
      throw table_error(log, t, fmt::format("the log is of {}, which foreduce does not know", type),
                        fmt::format("give --instance: {}, or a machine file with `like:`",
                                    alike_words(type, catalogue.names())));
    const Machine named = catalogue.load(type);
    if (t.gpu.empty() || (named.gpu && is_gpu_named(t.gpu, named.gpu->model))) return type;
  }
  if (t.gpu.empty())
    throw table_error(log, t,
                      t.ranks_behind    ? kOtherOrder
                      : t.mixed.empty() ? "the log does not name the GPU"
                                        : fmt::format("the ranks have different GPUs: {}", t.mixed),
                      t.mixed.empty() ? "give --instance, e.g. --instance p4d.24xlarge"
                                      : "a host of another kind slows all: measure without it, or "
                                        "give --instance to judge by one kind");
  const auto all = candidates(t.gpu, per_node, t.facts);
  auto fitting = with_as_many_nics(all, t.facts);
  const std::string first = fitting.empty() ? "" : fitting[0];
  std::erase_if(fitting, [&](const std::string& type) { return !may_be(type, log, t); });
  if (first.empty()) {
    // Cards for slots are in machines of any kind.
    if (t.facts.network != NcclNetwork::efa && !is_pcie_card(words_of_gpu(t.gpu)))
      if (const auto one = elsewhere_with(t, per_node)) return one->name;
    throw table_error(log, t, fmt::format("no instance type has {} x {}", per_node, t.gpu),
                      other_machines(t.gpu) + told_by(t.facts));
  }
  if (fitting.empty()) {
    // H100 elsewhere are mostly alike; of A100 too few machines ship to guess one of them.
    const bool alike = first == "p5.48xlarge" || t.facts.network == NcclNetwork::infiniband;
    const auto one = alike ? elsewhere_with(t, t.hosts > 0 ? per_node : 0) : std::nullopt;
    if (one) return one->name;
    throw table_error(log, t,
                      fmt::format("{} at PCI addresses that are none of {}'s as far as these are "
                                  "known: {}",
                                  t.gpu, first, fmt::join(t.gpu_buses, " ")),
                      other_machines(t.gpu) + told_by(t.facts));
  }
  if (fitting.size() > 1) {
    std::vector<std::string> possible = fitting;
    for (const std::string& name : machines_elsewhere())  // instance types with fewer GPUs or cards
      if (const Machine m = machine_named(name);
          m.gpu && is_host_of(m, per_node) && is_gpu_named(t.gpu, m.gpu->model) &&
          (t.facts.network != NcclNetwork::efa || m.nic.efa > 0))
        possible.push_back(name);
    throw table_error(
        log, t, fmt::format("{} x {}: that may be {}", per_node, t.gpu, fmt::join(possible, ", ")),
        "give --instance" + told_by(t.facts));
  }
  if (all.size() > 1) remarks.push_back(remark::TakenFor{fitting[0], *t.facts.most_nics});
  return fitting[0];
}

}  // namespace

InputError table_error(const NcclLog& log, const NcclTable& t, std::string what, std::string hint) {
  return InputError(Problem{log.file, t.rows.front().line, t.rows.front().line > 0 ? 1 : 0, "",
                            std::move(what), std::move(hint), ""});
}

InputError one_rank_error(const NcclLog& log, const NcclTable& t) {
  if (t.independent_runs > 1)
    return table_error(
        log, t,
        fmt::format("rank 0 is listed {} times: each process ran by itself, on one GPU, "
                    "and sent nothing",
                    t.independent_runs),
        kBuildWithMpi);
  return table_error(
      log, t,
      "this run is of one GPU: nothing is sent, so its bus bandwidth is 0 and says "
      "nothing",
      fmt::format("run it on two GPUs at least: -g 2, or mpirun -np 2; for mpirun {}",
                  kBuildWithMpi));
}

InputError nothing_to_judge(const NcclLog& log, const std::optional<Collective>& asked) {
  std::vector<std::string> seen;
  bool open = false;
  for (const NcclTable& t : log.tables) {
    if (t.ranks == 1) return one_rank_error(log, t);
    std::string name =
        t.collective.empty() ? "none of nccl-tests' collectives that is known" : t.collective;
    if (t.ratio > 0) name += fmt::format(" (busbw is {:.4g} of algbw)", t.ratio);
    if (std::find(seen.begin(), seen.end(), name) == seen.end()) seen.push_back(std::move(name));
    open = open || t.collective.find(" or ") != std::string::npos;
  }
  std::vector<std::string_view> judged;
  for (const Collective c : kCollectives) judged.push_back(name_of(c));
  return file_error(log.file,
                    asked ? fmt::format("it has no table of {}; it has one of {}", name_of(*asked),
                                        fmt::join(seen, ", and of "))
                          : fmt::format("this is a table of {}{}", fmt::join(seen, ", and of "),
                                        open ? "" : ", which is not judged"),
                    open ? "say with --collective which it is"
                         : fmt::format("judged are {}{}", fmt::join(judged, ", "),
                                       told_by(log.tables.front().facts)));
}

bool is_gpu_named(const std::string& named, const std::string& model) {
  const auto log = words_of_gpu(named), ours = words_of_gpu(model);
  return same_kind(log, model) &&
         (memory_of(log).empty() || memory_of(ours).empty() || memory_of(log) == memory_of(ours));
}

std::vector<std::string> machines_with(const std::string& gpu, int per_node) {
  const auto named = words_of_gpu(gpu);
  std::vector<std::string> all, with_other_memory;
  const auto take = [&](const Machine& m) {
    if (m.gpus() != per_node || !same_kind(named, m.gpu->model)) return;
    (is_gpu_named(gpu, m.gpu->model) ? all : with_other_memory).push_back(m.name);
  };
  const Catalogue catalogue;
  for (const std::string& name : catalogue.names()) take(catalogue.load(name));
  for (const std::string& name : machines_elsewhere())
    if (const Machine m = machine_named(name); m.fabric() == Fabric::rdma) take(m);
  all.insert(all.end(), with_other_memory.begin(), with_other_memory.end());
  return all;
}

namespace {

/// What the log says of its GPUs and the machine does not agree with. `asked`: the user's name for
/// it, which may be a file.
void remark_on_gpus(LogCluster& w, const NcclTable& t, const std::string& asked) {
  const std::string& name = w.machine.name;
  if (!t.facts.platform.empty() && !names_file(asked) && t.facts.platform != w.machine.type())
    w.remarks.push_back(remark::OtherPlatform{t.facts.platform, name});
  if (!t.gpu.empty() && !same_gpu(words_of_gpu(t.gpu), w.machine.gpu->model)) {
    w.remarks.push_back(remark::OtherGpus{t.gpu, name, w.machine.gpu->model});
    if (names_file(asked)) return;  // who described the machine knows what it has
    w.other_gpu = cause::OtherGpu{name, w.machine.gpu->model, t.gpu,
                                  candidates(t.gpu, w.ranks / w.nodes, t.facts)};
  }
  if (!t.mixed.empty()) w.remarks.push_back(remark::MixedGpus{t.mixed, name});
  if (is_pcie_card(words_of_gpu(t.gpu)) && w.machine.nvlink)
    w.remarks.push_back(remark::PcieCards{t.gpu, name});
}

/// Notes that a log of InfiniBand is judged as a machine outside of EC2: `known`, one that ships.
void remark_on_rdma(LogCluster& w, const NcclTable& t, const std::string& name, bool known) {
  w.remarks.push_back(remark::OutsideEc2{name, known, w.machine.nic.count,
                                         t.facts.most_nics.value_or(w.machine.nic.count),
                                         w.machine.nic.bandwidth});
}

}  // namespace

/// Throws InputError for ranks of which nobody knows what is normal.
static void refuse_ranks(const NcclLog& log, const NcclTable& t) {
  if (t.groups > 1)
    throw table_error(
        log, t,
        fmt::format("its ranks are in {} groups, which each run a collective at the same "
                    "time (NCCL_TESTS_SPLIT): nothing is known of such",
                    t.groups),
        "measure without NCCL_TESTS_SPLIT");
  if (!t.uneven.empty())
    throw table_error(
        log, t, fmt::format("hosts have different numbers of ranks: {}", t.uneven),
        "measure with as many ranks on each host, for only then is it known what is normal");
}

namespace {

/// Throws where a table is of no cluster that could be judged, or where nothing says of how many
/// ranks it is.
void refuse_table(const NcclLog& log, const NcclTable& t, const std::string& instance, int nodes) {
  const auto fail = [&](std::string what, std::string hint) {
    return table_error(log, t, std::move(what), std::move(hint));
  };
  if (t.ranks == 1) throw one_rank_error(log, t);
  if (t.facts.rccl || t.gpu.starts_with("AMD "))
    throw fail(fmt::format("{} RCCL, and what is normal is known of NCCL alone",
                           t.gpu.starts_with("AMD ") ? t.gpu + " run" : "this is a log of"),
               "");
  if (t.gpu.find(" MIG ") != std::string::npos)
    throw fail(fmt::format("{}: a slice of a GPU", t.gpu),
               "slices talk through host memory, whatever links their GPUs have, and nothing is "
               "known of how fast: measure whole GPUs (nvidia-smi -mig 0)");
  if (!t.conflicting_hosts.empty())
    throw fail(fmt::format("{}: runs that know nothing of each other write into this log",
                           t.conflicting_hosts),
               fmt::format("give each job a log of its own; or {}", kBuildWithMpi));
  if (!t.ranks_by_row.empty())
    throw fail(fmt::format("its rows are of different numbers of ranks, by busbw over algbw: {}",
                           t.ranks_by_row),
               "a table is of one cluster: put the rows of each number into a log of their own");
  if (t.ranks == 0 && (nodes == 0 || instance.empty()))
    throw fail(t.ranks_behind ? kOtherOrder : "the log does not say how many ranks there were",
               instance.empty() ? "give --instance and --nodes" : "give --nodes");
}

}  // namespace

LogCluster cluster_of_log(const NcclLog& log, const NcclTable& t, const std::string& instance,
                          int nodes) {
  const auto fail = [&](std::string what, std::string hint) {
    return table_error(log, t, std::move(what), std::move(hint));
  };
  refuse_table(log, t, instance, nodes);
  // Hosts of one NVLink domain are one node.
  const std::optional<Machine> given =
      instance.empty() ? std::nullopt : std::optional(machine_named(instance));
  const int joined = given && given->nvlink ? given->nvlink->hosts : 1;
  const bool several = joined > 1 && nodes > 0 && t.hosts % nodes == 0 && t.hosts / nodes <= joined;
  if (nodes > 0 && t.hosts > 0 && nodes != t.hosts && !several)
    throw fail(
        fmt::format(
            "--nodes {}, but the log lists {}{}", nodes, counted(t.hosts, "host"),
            t.independent_runs > 1 ? fmt::format(", and rank 0 {} times", t.independent_runs) : ""),
        t.independent_runs > 1 ? kBuildWithMpi : "");
  if (nodes == 0) nodes = (t.hosts + joined - 1) / joined;
  refuse_ranks(log, t);
  if (!given && !t.facts.other_plugin.empty())
    throw fail(fmt::format("NCCL used the plugin {}, and no machine that ships has such a network",
                           t.facts.other_plugin),
               "describe the machine in a file (docs/machine.md) and give --instance ./file.yaml");
  LogCluster w;
  const int per_node = nodes > 0 ? t.ranks / nodes : std::max(1, t.least_on_host);
  const bool verbs = t.facts.network == NcclNetwork::unknown && !t.facts.most_nics &&
                     t.facts.platform.empty() && t.facts.names_rdma_cards();
  const bool rdma = instance.empty() && (t.facts.network == NcclNetwork::infiniband || verbs);
  const auto known = rdma ? elsewhere_with(t, nodes > 0 ? per_node : 0) : std::nullopt;
  w.machine = given   ? *given
              : known ? *known
                      : machine_named(instance_of_log(log, t, per_node, w.remarks));
  const std::string name = w.machine.name;
  const int gpus = w.machine.gpus();
  if (gpus == 0) throw input_error(fmt::format("--instance: {} has no GPU", name));
  if (nodes == 0) {
    nodes = (t.ranks + gpus - 1) / gpus;
    if (nodes == 1) w.remarks.push_back(remark::NodesTaken{t.ranks});
  }
  w.nodes = nodes;
  w.ranks = t.ranks > 0 ? t.ranks : nodes * gpus;
  // The columns leave several numbers of ranks possible, of which the nodes tell the right one.
  if (t.least_ranks <= nodes * gpus && nodes * gpus <= t.most_ranks) w.ranks = nodes * gpus;
  if (w.ranks % nodes != 0 || w.ranks / nodes > gpus) {
    const std::string on = fmt::format("{} x {} with {} GPUs each", nodes, name, gpus);
    throw fail(
        w.ranks > nodes * gpus
            ? fmt::format("{} ranks do not fit on {}", w.ranks, on)
            : fmt::format("{} ranks cannot be spread evenly over {}", w.ranks, on),
        w.ranks % gpus == 0 ? fmt::format("give --nodes {}", w.ranks / gpus) : "give --nodes");
  }
  if (w.ranks < 2) throw one_rank_error(log, t);
  if (t.independent_runs > 1) w.remarks.push_back(remark::SideBySide{t.independent_runs, t.ranks});
  if (!t.same_gpu.empty()) w.remarks.push_back(remark::SameGpu{t.same_gpu, t.hosts});
  if (w.ranks / nodes < gpus) w.remarks.push_back(remark::GpusInUse{w.ranks / nodes, gpus, name});
  remark_on_gpus(w, t, instance);
  if (known) remark_on_rdma(w, t, name, true);
  if (rdma && !known && w.machine.nic.efa > 0) {
    w.machine = over_rdma(w.machine);
    w.machine.like = name;
    w.machine.name += " over InfiniBand";
    remark_on_rdma(w, t, name, false);
  }
  w.machine = w.machine.with_gpus(w.ranks / nodes);
  return w;
}

remark::AskedProfile asked_profile(const Profile& profile, const Machine& machine) {
  remark::AskedProfile asked{profile.name, profile.library, {}, machine.gpu->model};
  std::vector<std::string> gpus = profile.nearest_for;
  const std::vector<std::string> known = machine_names();
  for (const std::string& name : profile.instances)  // a profile of one's own may name a file
    if (holds(known, name) && machine_named(name).gpu)
      gpus.push_back(family_of(*machine_named(name).gpu));
  std::sort(gpus.begin(), gpus.end());
  gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());
  if (!holds(gpus, family_of(*machine.gpu))) asked.made_for = std::move(gpus);
  return asked;
}

NodeNetwork network_of(const Machine& m) {
  return m.nic.efa > 0                     ? NodeNetwork::efa
         : m.nic.fabric == NicFabric::roce ? NodeNetwork::roce
                                           : NodeNetwork::infiniband;
}

}  // namespace foreduce
