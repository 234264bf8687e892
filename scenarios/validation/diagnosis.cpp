#include "scenarios/validation/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <sstream>

#include "models/profile.hpp"
#include "sim/batch.hpp"

namespace foreduce {
namespace {

using nlohmann::ordered_json;

/// What may be wrong; `none` of a sound cluster.
enum class Fault { none, pcie, rails, channels, sockets, bounce, latency, algorithm, floor };

/// A cluster as it may be: sound, or with one thing wrong.
struct Setup {
  Fault fault = Fault::none;
  std::string what, remedy;
  Machine machine;
  Profile profile;
  std::string algorithm = "nccl";
};

/// No interval is narrower than this factor either way: one sound cluster measured twice differs by some per cent (assumed).
constexpr double kLeastSpread = 1.1;
/// Suspects whose misfits differ by less fit alike: two sound runs of one cluster differ by as much (assumed).
constexpr double kAlike = 0.2;
/// Of what the links allow: rounding, and a NIC that does a little better than its sheet, explain no more.
constexpr double kBeyond = 0.95;
/// Where a number of a suspect's profile comes from.
constexpr const char* kSuspicion = "suspected";

struct Interval {
  double time = 0, low = 0, high = 0, least = 0;
  /// 0 where it was expected, 1 at the slow end, on a scale of ratios; at the fast end -1, or what the links allow.
  double place(double measured) const { return std::log(measured / time) / std::log(high / time); }
};

/// The expected time of an all-reduce of each size on each setup: [setup][size]. `doubt`: why the intervals are wider than they
/// might be.
std::vector<std::vector<Interval>> expect(const std::vector<Setup>& setups, int nodes, const std::vector<double>& sizes, int jobs,
                                          std::string* doubt = nullptr) {
  std::vector<Question> questions;
  for (const Setup& s : setups) {
    const auto machine = std::make_shared<const Machine>(s.machine);
    const auto cluster = std::make_shared<const Cluster>(std::vector(static_cast<std::size_t>(nodes), machine), FabricSpec{});
    const auto profile = std::make_shared<const Profile>(s.profile);
    for (const double bytes : sizes) questions.push_back({cluster, profile, Bytes{std::max(4.0, bytes)}, s.algorithm});
  }
  const std::vector<Expected> answers = expected_all_reduces(questions, jobs);
  std::vector<std::vector<Interval>> all(setups.size(), std::vector<Interval>(sizes.size()));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Expected& e = answers[i];
    if (!e.error.empty()) throw std::runtime_error("the prediction failed: " + e.error);
    if (doubt && e.extrapolated) *doubt = e.why;
    // Expected holds nine of ten; who asks whether something is wrong wants to be wrong once in a hundred: 2.576 against 1.645
    // deviations.
    const double time = e.time.value, spread = std::max(kLeastSpread, std::pow(e.high / e.time, 2.576 / 1.645));
    all[i / sizes.size()][i % sizes.size()] = {time, std::min(time, std::max(kBeyond * e.least.value, time / spread)),
                                               time * spread, e.least.value};
  }
  return all;
}

/// The PCIe switches that have NICs.
int rails_of(const Machine& m) {
  if (!m.pcie) return 1;
  return static_cast<int>(
      std::count_if(m.pcie->switches.begin(), m.pcie->switches.end(), [](const PcieSwitch& s) { return !s.nics.empty(); }));
}
Machine with_rails(Machine m, int count) {
  int rail = 0, nic = 0;
  for (PcieSwitch& s : m.pcie->switches) {
    if (s.nics.empty()) continue;
    if (rail++ >= count) s.nics.clear();
    for (int& n : s.nics) n = nic++;
  }
  m.nic.count = nic;
  return m;
}

/// NCCL finds a ring a rail, and doubles it: of fewer rails it makes fewer channels.
void fewer_channels(Profile& profile, int left, int rails) {
  if (profile.channels)
    profile.channels =
        Estimated<double>{std::max(2.0, std::floor(profile.channels->value * left / rails)), "derived", {}, kSuspicion};
}

/// What goes wrong in practice, the usual before the rare, each as the cluster it would be. Of how many NICs there are, only what
/// the log leaves possible.
std::vector<Setup> suspects(const NcclLog& log, const Machine& sound, const Profile& profile, int nodes) {
  std::vector<Setup> all;
  if (nodes == 1) {
    Setup pcie{Fault::pcie, "the GPUs talk over PCIe instead of NVLink",
               "nvidia-smi topo -m; NCCL_P2P_DISABLE must be unset; look for `via SHM` or `via P2P` with NCCL_DEBUG=INFO", sound,
               profile};
    if (sound.nvlink && sound.pcie) {
      pcie.machine.nvlink.reset();
      all.push_back(std::move(pcie));
    }
    return all;
  }
  const int rails = rails_of(sound);
  std::vector<int> left{1, rails / 4, rails / 2, rails * 3 / 4};
  if (log.nics) left = {(*log.nics * rails + sound.nic.count - 1) / sound.nic.count};
  for (const int k : left) {
    if (k < 1 || k >= rails ||
        (!all.empty() && std::any_of(all.begin(), all.end(), [&](const Setup& s) { return rails_of(s.machine) == k; })))
      continue;
    all.push_back({Fault::rails, fmt::format("{} of {} rails {} everything", k, rails, k == 1 ? "carries" : "carry"),
                   "count EFA interfaces (fi_info -p efa; `found N nics` with NCCL_DEBUG=INFO), the launch template's network "
                   "cards, NCCL_IB_HCA, pods' vpc.amazonaws.com/efa",
                   with_rails(sound, k), profile});
    fewer_channels(all.back().profile, k, rails);
  }
  if (rails > 2) {  // A channel enters and leaves a node over one NIC.
    all.push_back({Fault::channels, "only two channels are used",
                   "unset NCCL_MAX_NCHANNELS and NCCL_MAX_CTAS; NCCL_DEBUG=INFO says `N coll channels`", with_rails(sound, 2),
                   profile});
    all.back().profile.channels = Estimated<double>{2, "assumed", {}, kSuspicion};
  }
  if (sound.nic.efa > 0) {
    // What a flow over ENA can do is in the catalogue, at an instance that has nothing else.
    const Nic ena = Catalogue().load("p3.16xlarge").nic;
    Setup tcp{Fault::sockets, "TCP over one interface instead of EFA",
              "install aws-ofi-nccl and libfabric's efa provider; the security group must allow all traffic to itself; "
              "NCCL_DEBUG=INFO must not say `Using network Socket`",
              rails > 1 ? with_rails(sound, 1) : sound, profile};
    if (rails > 1) fewer_channels(tcp.profile, 1, rails);
    Nic& nic = tcp.machine.nic;
    nic.efa = 0;
    nic.efa_peers.clear();
    nic.gpudirect = false;
    nic.latency = std::max(nic.latency, ena.latency);
    if (auto& latency = tcp.profile.of(PathClass::network).latency) latency->value = std::max(latency->value, ena.latency);
    nic.flow_limit = ena.flow_limit;
    nic.flow_limit_spread = ena.flow_limit_spread;
    nic.flows = ena.flows;
    all.push_back(std::move(tcp));
  }
  if (sound.nic.gpudirect && sound.host) {
    all.push_back(
        {Fault::bounce, "every byte bounces through host memory instead of GPUDirect",
         "kernel module (nv_peer_mem, dmabuf), FI_EFA_USE_DEVICE_RDMA=1 on old stacks, ACS off; NCCL_DEBUG=INFO must say `GDRDMA`",
         sound, profile});
    all.back().machine.nic.gpudirect = false;
  }
  for (const int k : {2, 4, 8}) {
    all.push_back({Fault::latency, fmt::format("a message between nodes takes {} times as long", k),
                   "cluster placement group, same zone; C-states and CPU frequency; NCCL_DEBUG and profilers off; CPU affinity of "
                   "the proxy threads",
                   sound, profile});
    all.back().machine.nic.latency = k * sound.nic.latency;
    if (auto& latency = all.back().profile.of(PathClass::network).latency) latency->value = k * latency->value;
    for (Protocol& protocol : all.back().profile.protocols)
      if (protocol.net_hop) protocol.net_hop->value = k * protocol.net_hop->value;
  }
  all.push_back({Fault::algorithm, "a ring where a tree is faster",
                 "unset NCCL_ALGO (and NCCL_TREE_THRESHOLD=0 of old versions); or NCCL is older than 2.4", sound, profile, "ring"});
  all.push_back({Fault::algorithm, "a tree where a ring is faster", "unset NCCL_ALGO", sound, profile, "double-tree"});
  return all;
}

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

/// Which instances have that GPU, as CUDA names it ("Tesla V100-SXM2-32GB", "NVIDIA H100 80GB HBM3"), at least so many, and EFA if
/// the log shows it.
std::vector<std::string> candidates(const std::string& gpu, int per_node, const NcclLog& log) {
  const auto memory = [](const std::vector<std::string>& all) {
    const auto found = std::find_if(all.begin(), all.end(), [](const std::string& w) { return w.size() > 2 && w.ends_with("GB"); });
    return found == all.end() ? std::string() : *found;
  };
  const auto named = words_of_gpu(gpu);
  const Catalogue catalogue;
  std::vector<std::string> all, exact;
  for (const std::string& name : catalogue.names()) {
    const Machine m = catalogue.load(name);
    if (!m.gpu || m.gpus() < per_node || (log.network == NcclNetwork::efa && m.nic.efa == 0)) continue;
    if (!same_gpu(named, m.gpu->model)) continue;
    if (!memory(named).empty() && memory(named) != memory(words_of_gpu(m.gpu->model))) continue;
    all.push_back(name);
    if (m.gpus() == per_node) exact.push_back(name);
  }
  return exact.empty() ? all : exact;
}

struct Where {
  Machine machine;
  int nodes = 0, ranks = 0;
  std::vector<std::string> remarks;  // what log and options do not agree on
};

Where where(const NcclLog& log, const NcclTable& t, const std::string& instance, int nodes) {
  const auto fail = [&](std::string what, std::string hint) {
    return InputError(
        Problem{log.file, t.rows.front().line, t.rows.front().line > 0 ? 1 : 0, "", std::move(what), std::move(hint), ""});
  };
  if (t.ranks == 0 && (nodes == 0 || instance.empty()))
    throw fail("the log does not say how many ranks there were", "give --instance and --nodes");
  if (nodes > 0 && t.hosts > 0 && nodes != t.hosts)
    throw fail(fmt::format("--nodes {}, but the log lists {} hosts", nodes, t.hosts), "");
  if (nodes == 0) nodes = t.hosts;
  std::string name = instance;
  if (name.empty()) {
    if (t.gpu.empty()) throw fail("the log does not name the GPU", "give --instance, e.g. --instance p4d.24xlarge");
    const auto fitting = candidates(t.gpu, nodes > 0 ? t.ranks / nodes : 1, log);
    if (fitting.empty())
      throw fail(fmt::format("no instance of the catalogue has {} x {}", nodes > 0 ? t.ranks / nodes : 1, t.gpu),
                 "give --instance (a name, or ./file.yaml)");
    if (fitting.size() > 1)
      throw fail(fmt::format("{} x {}: that may be {}", nodes > 0 ? t.ranks / nodes : 1, t.gpu, fmt::join(fitting, ", ")),
                 "give --instance");
    name = fitting[0];
  }
  Where w;
  w.machine = machine_named(name);
  const int gpus = w.machine.gpus();
  if (gpus == 0) throw input_error(fmt::format("--instance: {} has no GPU", name));
  if (nodes == 0) nodes = (t.ranks + gpus - 1) / gpus;
  w.nodes = nodes;
  w.ranks = t.ranks > 0 ? t.ranks : nodes * gpus;
  if (w.ranks % nodes != 0 || w.ranks / nodes > gpus)
    throw fail(fmt::format("{} ranks do not fit on {} x {} with {} GPUs each", w.ranks, nodes, name, gpus), "give --nodes");
  if (w.ranks < 2) throw fail("one rank has nobody to talk to", "");
  if (w.ranks / nodes < gpus)
    w.remarks.push_back(fmt::format("{} of the {} GPUs of each {} are in use", w.ranks / nodes, gpus, name));
  if (!t.gpu.empty() && !same_gpu(words_of_gpu(t.gpu), w.machine.gpu->model))
    w.remarks.push_back(fmt::format("the log's GPUs are {}, those of {} are {}", t.gpu, name, w.machine.gpu->model));
  if (t.gpu.find("PCIe") != std::string::npos && w.machine.nvlink)
    w.remarks.push_back(fmt::format("the log's GPUs are {}, without NVLink, and those of {} have it", t.gpu, name));
  w.machine = w.machine.with_gpus(w.ranks / nodes);
  return w;
}

/// What the log itself says for a cause; "" if nothing.
std::string evidence(const NcclLog& log, const Setup& s, const Machine& sound) {
  switch (s.fault) {
    case Fault::sockets: return log.network == NcclNetwork::sockets ? "the log says so: NCCL used its sockets" : "";
    case Fault::rails:
      return log.nics && *log.nics < sound.nic.count
                 ? fmt::format("the log says so: the plugin found {} of {} NICs", *log.nics, sound.nic.count)
                 : "";
    case Fault::bounce: return log.gpudirect && !*log.gpudirect ? "the log says so: connections between nodes without GDRDMA" : "";
    case Fault::channels:
      return log.channels && *log.channels <= 2 ? fmt::format("the log says so: {} channels", *log.channels) : "";
    case Fault::algorithm:
      return log.forced_algorithm.empty() ? "" : fmt::format("the log says so: NCCL_ALGO={}", log.forced_algorithm);
    default: return "";
  }
}
/// What the log says against it.
bool contradicted(const NcclLog& log, const Setup& s) {
  switch (s.fault) {
    case Fault::sockets: return log.network == NcclNetwork::efa;
    case Fault::bounce: return log.gpudirect && *log.gpudirect;
    case Fault::channels: return log.channels && *log.channels > 2;
    default: return false;
  }
}

/// How far measurements lie from a prediction: the mean over sizes of the distance to the middle, in half-widths.
double misfit_of(const std::vector<Interval>& predicted, const std::vector<double>& measured) {
  double sum = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) sum += std::abs(predicted[i].place(measured[i]));
  return sum / static_cast<double>(measured.size());
}
/// The share of what is out of a sound cluster's interval that is within the suspect's.
double explained(const std::vector<Interval>& sound, const std::vector<Interval>& suspect, const std::vector<double>& measured) {
  double out = 0, within = 0;
  for (std::size_t i = 0; i < measured.size(); ++i)
    if (std::abs(sound[i].place(measured[i])) > 1) {
      ++out;
      within += std::abs(suspect[i].place(measured[i])) <= 1;
    }
  return out > 0 ? within / out : 0;
}

CheckedTable judge(const NcclLog& log, const NcclTable& t, const std::string& instance, int nodes, int jobs) {
  const Where w = where(log, t, instance, nodes);
  CheckedTable checked;
  checked.instance = w.machine.name;
  checked.nodes = w.nodes;
  checked.ranks = w.ranks;
  checked.remarks = w.remarks;
  std::vector<double> sizes, measured;
  for (const NcclRow& r : t.rows) {
    if (r.bytes <= 0) continue;
    checked.rows.push_back({r, {}, {}, {}, Verdict::normal});
    sizes.push_back(r.bytes);
    measured.push_back(r.timing().time.value);
  }
  if (sizes.empty()) throw file_error(log.file, "every row is of size 0");
  const Profile profile = Profiles().made_for(w.machine.name);
  std::string doubt;
  const auto sound = expect({{Fault::none, "", "", w.machine, profile}}, w.nodes, sizes, jobs, &doubt)[0];
  checked.profile = profile.name;
  if (!doubt.empty()) checked.remarks.push_back("extrapolated: " + doubt);

  std::size_t out = 0, in_a_row = 0, longest = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    CheckedRow& r = checked.rows[i];
    r.expected = Seconds{sound[i].time};
    r.low = Seconds{sound[i].low};
    r.high = Seconds{sound[i].high};
    r.verdict = measured[i] > sound[i].high ? Verdict::slow : measured[i] < sound[i].low ? Verdict::fast : Verdict::normal;
    const bool is_out = r.verdict != Verdict::normal;
    out += is_out;
    in_a_row = is_out && i > 0 && checked.rows[i - 1].verdict == r.verdict ? in_a_row + 1 : is_out;
    longest = std::max(longest, in_a_row);
  }
  checked.normal = longest < std::min<std::size_t>(3, sizes.size()) && 5 * out <= sizes.size();
  std::size_t impossible = 0, example = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (measured[i] < kBeyond * sound[i].least) {
      ++impossible;
      example = i;
    }
  if (impossible > 0) {
    checked.normal = false;
    checked.remarks.push_back(
        fmt::format("{} of {} sizes are faster than the links of {} x {} allow ({}: {}, {} at least): not that instance, not so "
                    "many nodes, or not what the log says",
                    impossible, sizes.size(), w.nodes, w.machine.name, to_text(Bytes{sizes[example]}),
                    to_text(Seconds{measured[example]}), to_text(Seconds{sound[example].least})));
  }
  checked.misfit = misfit_of(sound, measured);
  const bool usual = checked.normal;

  // A tree on two nodes sends S over the NIC where busbw counts 2(n-1)/n of it.
  const double nics = w.machine.nic.bandwidth.value * w.machine.nic.count / 1e9;
  const auto most = std::max_element(t.rows.begin(), t.rows.end(),
                                     [](const NcclRow& a, const NcclRow& b) { return a.timing().busbw < b.timing().busbw; });
  if (w.nodes == 2 && most->timing().busbw > nics && most->timing().algbw <= nics)
    checked.remarks.push_back(
        fmt::format("busbw {:.1f} GB/s is above the NICs' {:.1f} GB/s and no mistake: on two nodes a tree sends each byte once "
                    "over the network, and busbw counts {:.3f} times",
                    most->timing().busbw, nics, 2.0 * (w.ranks - 1) / w.ranks));
  double wrong = 0;
  for (const NcclRow& r : t.rows) {
    const bool counts =
        r.redop != "" && r.timing().wrong && *r.timing().wrong >= 1;  // older tests print the largest error, far below 1
    wrong += counts ? *r.timing().wrong : 0;
  }
  if (wrong > 0) {
    checked.remarks.push_back(fmt::format("{:.0f} elements were wrong: whatever the speed, this run is broken", wrong));
    checked.normal = false;
  }

  if (impossible > 0) return checked;

  std::vector<Setup> all = suspects(log, w.machine, profile, w.nodes);
  // A floor: the smallest size takes so much longer, and all others too. Only small sizes can tell it from bandwidth.
  const auto least = static_cast<std::size_t>(std::min_element(sizes.begin(), sizes.end()) - sizes.begin());
  if (const double more = measured[least] - sound[least].time;
      sizes.size() >= 3 && sizes[least] <= 65536 && measured[least] > sound[least].high) {
    all.push_back(
        {Fault::floor,
         fmt::format("the latency floor is too high: every all-reduce takes {} more, whatever its size", to_text(Seconds{more})),
         "CPU affinity and frequency of the proxy threads, C-states; other work on the hosts; profilers, NCCL_DEBUG=TRACE; launch "
         "from a script that synchronises each call",
         w.machine, profile});
    all.back().profile.launch = Estimated<Seconds>{value_or(profile.launch, Seconds{}) + Seconds{more}, "assumed", {}, kSuspicion};
  }
  std::erase_if(all, [&](const Setup& s) { return contradicted(log, s); });
  if (usual) std::erase_if(all, [&](const Setup& s) { return evidence(log, s, w.machine).empty(); });
  if (usual) {
    for (const Setup& s : all)
      checked.remarks.push_back(fmt::format("{}; {} (and yet the times are normal)", s.what, evidence(log, s, w.machine)));
    return checked;
  }
  // Ten sizes are enough to tell the suspects apart: the ends, and evenly between.
  std::vector<double> few, few_measured;
  std::vector<Interval> few_sound;
  const std::size_t n = std::min<std::size_t>(10, sizes.size());
  for (std::size_t k = 0; k < n; ++k) {
    const std::size_t i = n == 1 ? 0 : k * (sizes.size() - 1) / (n - 1);
    few.push_back(sizes[i]);
    few_measured.push_back(measured[i]);
    few_sound.push_back(sound[i]);
  }
  const double base = checked.misfit = misfit_of(few_sound, few_measured);
  const auto predicted = expect(all, w.nodes, few, jobs);
  for (std::size_t s = 0; s < all.size(); ++s) {
    const double misfit = misfit_of(predicted[s], few_measured);
    const std::string says = evidence(log, all[s], w.machine);
    if ((misfit < 0.8 * base && explained(few_sound, predicted[s], few_measured) >= 0.5) || !says.empty())
      checked.causes.push_back({all[s].what, all[s].remedy, says, misfit});
  }
  if (!checked.causes.empty()) {
    // What the log says comes first; then what fits best, and of those that fit as well the usual one.
    double best = 0;
    const auto rank = [&](const Cause& c) { return std::pair(c.evidence.empty(), std::max(c.misfit, best + kAlike)); };
    const auto before = [&](const Cause& a, const Cause& b) { return rank(a) < rank(b); };
    best = std::min_element(checked.causes.begin(), checked.causes.end(), before)->misfit;
    std::stable_sort(checked.causes.begin(), checked.causes.end(), before);
    std::erase_if(checked.causes, [&](const Cause& c) { return c.evidence.empty() && c.misfit > best + kAlike; });
    return checked;
  }
  // No single cause fits all sizes: where it begins is worth knowing.
  std::size_t from = sizes.size();
  while (from > 0 && checked.rows[from - 1].verdict == Verdict::slow) --from;
  std::size_t until = 0;
  while (until < sizes.size() && checked.rows[until].verdict == Verdict::slow) ++until;
  if (from == 0) checked.remarks.emplace_back("slower at every size, and none of the usual causes fits");
  else if (from < sizes.size())
    checked.remarks.push_back(fmt::format("degrades from {} on, {:.1f} times the expected time at the end; below, it is not",
                                          to_text(Bytes{sizes[from]}), measured.back() / sound.back().time));
  else if (until > 0)
    checked.remarks.push_back(fmt::format("the floor is too high: slow up to {}, not beyond", to_text(Bytes{sizes[until - 1]})));
  else checked.remarks.emplace_back("none of the usual causes fits");
  return checked;
}

ordered_json to_json(const NcclLog& log, const std::vector<CheckedTable>& tables) {
  ordered_json j{{"foreduce_version", FOREDUCE_VERSION},
                 {"kind", "check"},
                 {"log", log.file},
                 {"nccl_version", log.nccl_version},
                 {"network", name_of(log.network)},
                 {"notes", log.notes},
                 {"tables", ordered_json::array()}};
  for (const CheckedTable& t : tables) {
    ordered_json& one = j["tables"].emplace_back(ordered_json{{"instance", t.instance},
                                                              {"nodes", t.nodes},
                                                              {"ranks", t.ranks},
                                                              {"profile", t.profile},
                                                              {"normal", t.normal},
                                                              {"misfit", t.misfit}});
    one["rows"] = ordered_json::array();
    for (const CheckedRow& r : t.rows)
      one["rows"].push_back({{"bytes", r.row.bytes},
                             {"type", r.row.type},
                             {"expected_s", r.expected.value},
                             {"low_s", r.low.value},
                             {"high_s", r.high.value},
                             {"measured_s", r.row.timing().time.value},
                             {"busbw_GBps", r.row.timing().busbw},
                             {"verdict", name_of(r.verdict)}});
    one["causes"] = ordered_json::array();
    for (const Cause& c : t.causes)
      one["causes"].push_back({{"what", c.what}, {"remedy", c.remedy}, {"evidence", c.evidence}, {"misfit", c.misfit}});
    one["remarks"] = t.remarks;
  }
  return j;
}

Table as_table(const CheckedTable& t) {
  Table table;
  table.headings = {"size", "type", "expected", "from", "to", "measured", "busbw", "verdict"};
  for (const CheckedRow& r : t.rows)
    table.rows.push_back({to_text(Bytes{r.row.bytes}), r.row.type, to_text(r.expected), to_text(r.low), to_text(r.high),
                          to_text(r.row.timing().time), fmt::format("{:.2f} GB/s", r.row.timing().busbw), name_of(r.verdict)});
  return table;
}

/// All tables in one, for programs.
std::string as_csv(const std::vector<CheckedTable>& tables) {
  Table table;
  table.headings = {"instance", "nodes",      "ranks",      "size_bytes", "type",   "expected_s",     "low_s",
                    "high_s",   "measured_s", "busbw_GBps", "verdict",    "normal", "likeliest_cause"};
  for (const CheckedTable& t : tables)
    for (const CheckedRow& r : t.rows)
      table.rows.push_back({t.instance, fmt::format("{}", t.nodes), fmt::format("{}", t.ranks), fmt::format("{:.0f}", r.row.bytes),
                            r.row.type, fmt::format("{:.6g}", r.expected.value), fmt::format("{:.6g}", r.low.value),
                            fmt::format("{:.6g}", r.high.value), fmt::format("{:.6g}", r.row.timing().time.value),
                            fmt::format("{}", r.row.timing().busbw), name_of(r.verdict), t.normal ? "yes" : "no",
                            t.causes.empty() ? "" : t.causes.front().what});
  return table.csv();
}

std::string text_of(const NcclLog& log, const std::vector<CheckedTable>& tables, bool colour) {
  std::string text;
  for (const std::string& note : log.notes) text += fmt::format("{}: {}\n", log.file, note);
  for (const CheckedTable& t : tables) {
    text += fmt::format("{}all_reduce of {} ranks on {} x {} (profile {}){}{}\n\n{}\n", text.empty() ? "" : "\n", t.ranks, t.nodes,
                        t.instance, t.profile, log.nccl_version.empty() ? "" : ", NCCL " + log.nccl_version,
                        log.network == NcclNetwork::unknown ? "" : fmt::format(" over {}", name_of(log.network)),
                        as_table(t).text(colour));
    const auto out = std::count_if(t.rows.begin(), t.rows.end(), [](const CheckedRow& r) { return r.verdict != Verdict::normal; });
    text += "from, to: 99 of 100 sound runs, by what the profile was compared with\n";
    text += t.normal ? fmt::format("Normal: {} of {} sizes within their interval\n", t.rows.size() - static_cast<std::size_t>(out),
                                   t.rows.size())
                     : fmt::format("Not normal: {} of {} sizes out of their interval\n", out, t.rows.size());
    for (std::size_t i = 0; i < t.causes.size(); ++i) {
      const Cause& c = t.causes[i];
      text += fmt::format(
          "{} {}{}\n  look at: {}\n", i == 0 ? "Looks like:" : "or:", c.what,
          c.evidence.empty() ? fmt::format(" (misfit {:.2f}, of a sound cluster {:.2f})", c.misfit, t.misfit) : "; " + c.evidence,
          c.remedy);
    }
    for (const std::string& remark : t.remarks) text += fmt::format("Note: {}\n", remark);
  }
  return text;
}

}  // namespace

const char* name_of(Verdict verdict) { return verdict == Verdict::slow ? "slow" : verdict == Verdict::fast ? "fast" : "normal"; }

std::vector<CheckedTable> check(const NcclLog& log, const std::string& instance, int nodes, int jobs) {
  std::vector<CheckedTable> checked;
  for (const NcclTable& t : log.tables)
    if (t.collective == "all_reduce") checked.push_back(judge(log, t, instance, nodes, jobs));
  if (checked.empty())
    throw file_error(log.file, "there is no all-reduce in it", "only all_reduce_perf can be judged");
  return checked;
}

void add_check(CLI::App& app, Action& action) {
  struct Arguments {
    std::string log, instance;
    int nodes = 0;
  };
  auto* command =
      app.add_subcommand("check", "is this bandwidth normal? nccl-tests' output against the model, and what may be wrong");
  const auto a = std::make_shared<Arguments>();
  const auto common = std::make_shared<Common>();
  command->add_option("log", a->log, "what all_reduce_perf printed, or its JSON (-J)")->required();
  command->add_option("--instance", a->instance, "instance type or ./file.yaml; default: from the GPU's name");
  command->add_option("--nodes", a->nodes, "how many; default: the hosts of the log, else ranks over GPUs")
      ->check(CLI::Range(1, 65536));
  command->add_option("--jobs", common->jobs, "simulations at a time; default: one a core")->check(CLI::Range(1, 4096));
  common->add_to(*command, false);
  command->callback([a, common, &action] {
    action = [a, common] {
      const NcclLog log = load_nccl_log(a->log);
      const auto tables = check(log, a->instance, a->nodes, common->jobs);
      common->write(common->wanted() == Format::json  ? to_json(log, tables).dump(2) + "\n"
                    : common->wanted() == Format::csv ? as_csv(tables)
                                                      : text_of(log, tables, common->colour()),
                    a->log);
      return std::all_of(tables.begin(), tables.end(), [](const CheckedTable& t) { return t.normal; }) ? 0 : 1;
    };
  });
}

}  // namespace foreduce
