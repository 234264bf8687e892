#include "scenarios/validation/log_cluster.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <sstream>

namespace foreduce {
namespace {

/// The words of a GPU's name, as CUDA prints it or a machine file does.
std::vector<std::string> words_of_gpu(std::string text) {
  std::replace(text.begin(), text.end(), '-', ' ');
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}
bool same_gpu(const std::vector<std::string>& named, const std::string& model) {
  const auto words = words_of_gpu(model);
  return !words.empty() && std::find(named.begin(), named.end(), words[0]) != named.end();
}

/// Which instances have that GPU, as CUDA names it ("Tesla V100-SXM2-32GB", "NVIDIA H100 80GB
/// HBM3"), at least so many, and EFA if the log shows it.
std::vector<std::string> candidates(const std::string& gpu, int per_node, const NcclFacts& log) {
  const auto memory = [](const std::vector<std::string>& all) {
    const auto found = std::find_if(all.begin(), all.end(), [](const std::string& w) {
      return w.size() > 2 && w.ends_with("GB");
    });
    return found == all.end() ? std::string() : *found;
  };
  const auto named = words_of_gpu(gpu);
  const Catalogue catalogue;
  std::vector<std::string> all, exact;
  for (const std::string& name : catalogue.names()) {
    const Machine m = catalogue.load(name);
    if (!m.gpu || m.gpus() < per_node || (log.network == NcclNetwork::efa && m.nic.efa == 0))
      continue;
    if (!same_gpu(named, m.gpu->model)) continue;
    if (!memory(named).empty() && memory(named) != memory(words_of_gpu(m.gpu->model))) continue;
    all.push_back(name);
    if (m.gpus() == per_node) exact.push_back(name);
  }
  return exact.empty() ? all : exact;
}

}  // namespace

LogCluster cluster_of_log(const NcclLog& log, const NcclTable& t, const std::string& instance,
                          int nodes) {
  const auto fail = [&](std::string what, std::string hint) {
    return InputError(Problem{log.file, t.rows.front().line, t.rows.front().line > 0 ? 1 : 0, "",
                              std::move(what), std::move(hint), ""});
  };
  if (t.ranks == 0 && (nodes == 0 || instance.empty()))
    throw fail("the log does not say how many ranks there were", "give --instance and --nodes");
  if (nodes > 0 && t.hosts > 0 && nodes != t.hosts)
    throw fail(fmt::format("--nodes {}, but the log lists {} hosts", nodes, t.hosts), "");
  if (nodes == 0) nodes = t.hosts;
  std::string name = instance;
  if (name.empty()) {
    if (t.gpu.empty())
      throw fail("the log does not name the GPU", "give --instance, e.g. --instance p4d.24xlarge");
    const auto fitting = candidates(t.gpu, nodes > 0 ? t.ranks / nodes : 1, t.facts);
    if (fitting.empty())
      throw fail(fmt::format("no instance of the catalogue has {} x {}",
                             nodes > 0 ? t.ranks / nodes : 1, t.gpu),
                 "give --instance (a name, or ./file.yaml)");
    if (fitting.size() > 1)
      throw fail(fmt::format("{} x {}: that may be {}", nodes > 0 ? t.ranks / nodes : 1, t.gpu,
                             fmt::join(fitting, ", ")),
                 "give --instance");
    name = fitting[0];
  }
  LogCluster w;
  w.machine = machine_named(name);
  const int gpus = w.machine.gpus();
  if (gpus == 0) throw input_error(fmt::format("--instance: {} has no GPU", name));
  if (nodes == 0) nodes = (t.ranks + gpus - 1) / gpus;
  w.nodes = nodes;
  w.ranks = t.ranks > 0 ? t.ranks : nodes * gpus;
  // The columns leave several numbers of ranks possible, of which the nodes tell the right one.
  if (t.least_ranks <= nodes * gpus && nodes * gpus <= t.most_ranks) w.ranks = nodes * gpus;
  if (w.ranks % nodes != 0 || w.ranks / nodes > gpus) {
    const std::string on = fmt::format("{} x {} with {} GPUs each", nodes, name, gpus);
    throw fail(
        w.ranks > nodes * gpus ? fmt::format("{} ranks do not fit on {}", w.ranks, on)
                               : fmt::format("{} ranks are not as many on each of {}", w.ranks, on),
        w.ranks % gpus == 0 ? fmt::format("give --nodes {}", w.ranks / gpus) : "give --nodes");
  }
  if (w.ranks < 2) throw fail("one rank has nobody to talk to", "");
  if (w.ranks / nodes < gpus)
    w.remarks.push_back(
        fmt::format("{} of the {} GPUs of each {} are in use", w.ranks / nodes, gpus, name));
  if (!t.gpu.empty() && !same_gpu(words_of_gpu(t.gpu), w.machine.gpu->model))
    w.remarks.push_back(fmt::format("the log's GPUs are {}, those of {} are {}", t.gpu, name,
                                    w.machine.gpu->model));
  if (t.gpu.find("PCIe") != std::string::npos && w.machine.nvlink)
    w.remarks.push_back(
        fmt::format("the log's GPUs are {}, without NVLink, and those of {} have it", t.gpu, name));
  if (instance.empty() && t.facts.network == NcclNetwork::infiniband && w.machine.nic.efa > 0) {
    w.machine = over_rdma(w.machine);
    w.machine.like = name;
    w.machine.name += " over InfiniBand";
    w.remarks.push_back(fmt::format(
        "the log shows InfiniBand, which is not EC2: judged as {0}'s GPUs and card rates over "
        "InfiniBand; --instance ./file.yaml describes another machine",
        name));
  }
  w.machine = w.machine.with_gpus(w.ranks / nodes);
  return w;
}

}  // namespace foreduce
