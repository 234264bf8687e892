#include "topologies/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "input/field_text.hpp"
#include "input/field_schema.hpp"
#include "input/field_yaml.hpp"
#include "topologies/slow_link_fields.hpp"

namespace foreduce {

template <class Fields>
void describe(Fields& f, Price& p) {
  f.required("on_demand", p.on_demand, "on-demand price in us-east-1");
  f.optional("date", p.date, "when the price was read, YYYY-MM-DD");
  f.optional("before_2025_06", p.before_2025_06, "price before the cut of June 2025");
}

template <class Fields>
void describe(Fields& f, Gpu& g) {
  f.required("model", g.model, "name of the accelerator");
  f.required("count", g.count, "GPUs in the machine", Limits::between(1, 1024));
  f.optional("memory", g.memory, "memory of one GPU");
  f.optional("memory_bandwidth", g.memory_bandwidth, "HBM or GDDR bandwidth of one GPU");
  f.optional("fp16", g.fp16, "dense fp16/bf16 tensor peak");
  f.optional("fp32", g.fp32, "fp32 peak");
  f.required("reduce_bandwidth", g.reduce_bandwidth,
             "bytes of arriving data that one GPU reduces per second");
  f.optional("sms", g.sms, "streaming multiprocessors", Limits::zero_or_more());
  f.optional("bf16", g.bf16, "whether it computes in bf16: no before the A100");
  f.optional("fp8", g.fp8, "whether it has FP8 tensor cores: from Ada and Hopper on");
}

template <class Fields>
void describe(Fields& f, NvLink& n) {
  f.required("kind", n.kind, "switch or mesh", one_of<NvLinkKind>("kind of NVLink"));
  f.required("links", n.links, "links per GPU", Limits::between(1, 64));
  f.optional("hosts", n.hosts,
             "hosts whose GPUs the switch joins (MNNVL); gpu.count is of all of them",
             Limits::between(1, 64));
  f.required("bandwidth", n.bandwidth, "one link, one direction");
  f.required("latency", n.latency, "one message over one hop", Limits::zero_or_more());
  f.optional("multicast", n.multicast, "the switch sums and multicasts (NVLS)");
  f.optional("edges", n.edges, "mesh: [gpu, gpu, links]", Limits::zero_or_more());
}

template <class Fields>
void describe(Fields& f, Host& h) {
  f.required("cpu", h.cpu, "processor");
  f.required("sockets", h.sockets, "processor sockets", Limits::between(1, 64));
  f.required("memory_bandwidth", h.memory_bandwidth, "sustained, per socket");
  f.optional("interconnect", h.interconnect, "between sockets, one direction");
  f.required("reduce_bandwidth", h.reduce_bandwidth,
             "bytes of arriving data that one socket reduces per second");
}

template <class Fields>
void describe(Fields& f, PcieSwitch& s) {
  f.required("socket", s.socket, "the socket it hangs on", Limits::zero_or_more());
  f.optional("gpus", s.gpus, "GPUs below it", Limits::zero_or_more());
  f.optional("nics", s.nics, "NICs below it", Limits::zero_or_more());
}

template <class Fields>
void describe(Fields& f, Pcie& p) {
  f.required("bandwidth", p.bandwidth, "every link of the tree, one direction");
  f.optional("uplink", p.uplink, "between a switch and its socket, where that is narrower");
  f.required("latency", p.latency, "one crossing", Limits::zero_or_more());
  f.required("switches", p.switches, "the PCIe switches");
  f.optional("slow_links", p.slow_links, "links to a GPU or a NIC that are slower than the others");
}

template <class Fields>
void describe(Fields& f, Nic& n) {
  f.required("count", n.count, "network cards", Limits::between(1, 256));
  f.required("bandwidth", n.bandwidth, "one card, one direction");
  f.optional("baseline_bandwidth", n.baseline_bandwidth, "baseline of a burstable card");
  f.required("latency", n.latency, "one message between two hosts; over EFA see docs/models.md",
             Limits::zero_or_more());
  f.optional("message_overhead", n.message_overhead,
             "how long any message occupies a card beyond its bytes", Limits::between(0, 1e-3));
  f.optional("efa", n.efa, "generation of EFA; without: see fabric", Limits::between(0, 9));
  f.optional("fabric", n.fabric,
             "efa, tcp, infiniband or roce; without: efa if there is EFA, else infiniband if the "
             "card reads GPU memory, else tcp",
             one_of<NicFabric>("fabric"));
  f.optional("gpudirect", n.gpudirect, "whether the card reads GPU memory");
  f.optional("flow_limit", n.flow_limit, "most that one flow gets in a placement group");
  f.optional("flow_limit_spread", n.flow_limit_spread, "the same outside a placement group");
  f.optional("flows", n.flows, "parallel flows per connection", Limits::between(1, 1024));
  f.optional("efa_peers", n.efa_peers, "the only instance types it can talk EFA to");
}

namespace {

/// Why a machine has no device of that name; "" if it has.
std::string no_such_device(const Machine& m, const std::string& device) {
  for (const auto& [kind, count] : {std::pair("gpu", m.gpus()), std::pair("nic", m.nic.count)})
    for (int d = 0; d < count; ++d)
      if (device == fmt::format("{}{}", kind, d)) return "";
  return fmt::format("there is no device '{}': GPUs are gpu0 to gpu{}, NICs nic0 to nic{}", device,
                     m.gpus() - 1, m.nic.count - 1);
}

/// That every GPU and NIC is below one switch, and every switch on a socket.
void check_pcie(FieldReader& f, const Machine& m) {
  if (!m.host) f.problem("pcie", "PCIe switches hang on a host section");
  const auto numbers = [](int count) {
    return count < 1    ? std::string("there is none")
           : count == 1 ? std::string("there is only 0")
                        : fmt::format("there are 0 to {}", count - 1);
  };
  std::vector<int> gpu_seen(static_cast<std::size_t>(m.gpus())),
      nic_seen(static_cast<std::size_t>(m.nic.count));
  const auto place = [&](const std::vector<int>& ids, std::vector<int>& seen,
                         const std::string& key, const char* what) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const int id = ids[i], count = static_cast<int>(seen.size());
      const std::string at = fmt::format("{}[{}]", key, i);
      if (id < 0 || id >= count)
        f.problem(at, fmt::format("there is no {} {}", what, id), numbers(count));
      else if (++seen[static_cast<std::size_t>(id)] > 1)
        f.problem(at, fmt::format("{} {} is below two switches", what, id));
    }
  };
  for (std::size_t i = 0; i < m.pcie->switches.size(); ++i) {
    const PcieSwitch& s = m.pcie->switches[i];
    const std::string key = fmt::format("pcie.switches[{}]", i);
    place(s.gpus, gpu_seen, key + ".gpus", "GPU");
    place(s.nics, nic_seen, key + ".nics", "NIC");
    if (m.host && s.socket >= m.host->sockets)
      f.problem(key + ".socket", fmt::format("there is no socket {}", s.socket),
                numbers(m.host->sockets));
  }
  const auto missing = [&](const std::vector<int>& seen, const char* what) {
    if (const auto at = std::find(seen.begin(), seen.end(), 0); at != seen.end())
      f.problem("pcie.switches", fmt::format("{} {} is below no switch", what, at - seen.begin()));
  };
  missing(gpu_seen, "GPU");
  missing(nic_seen, "NIC");
  for (std::size_t i = 0; i < m.pcie->slow_links.size(); ++i)
    if (const std::string why = no_such_device(m, m.pcie->slow_links[i].device); !why.empty())
      f.problem(fmt::format("pcie.slow_links[{}].device", i), why);
}

/// What the fields alone do not tell: do the parts of the machine fit together?
void check(FieldReader& f, const Machine& m) {
  const int gpus = m.gpus();
  if (!m.gpu && !m.host)
    f.problem("host", "a machine has GPUs (gpu), or a CPU that can serve (host), or both");
  if (gpus > 1 && !m.pcie && !m.nvlink)
    f.problem("pcie", "several GPUs need an nvlink or a pcie section: how are they connected?");
  if (m.nvlink && gpus == 0)
    f.problem("nvlink", "nvlink connects GPUs, and there are none: a gpu section is missing");
  if (m.nvlink && gpus > 0) {
    if (m.nvlink->kind == NvLinkKind::mesh && m.nvlink->edges.empty())
      f.problem("nvlink", "a mesh needs edges: [gpu, gpu, links]");
    if (m.nvlink->kind == NvLinkKind::mesh && m.nvlink->multicast)
      f.problem("nvlink", "multicast belongs to kind: switch");
    // Of a value that is no number, which is told elsewhere, nothing is known.
    if (m.nvlink->hosts > 0 && gpus % m.nvlink->hosts != 0)
      f.problem("nvlink",
                fmt::format("hosts: {} hosts cannot have as many GPUs each, for gpu.count "
                            "is {} in all",
                            m.nvlink->hosts, gpus));
    if (m.nvlink->kind == NvLinkKind::through_switch && !m.nvlink->edges.empty())
      f.problem("nvlink", "edges belong to kind: mesh");
    std::vector<int> used(static_cast<std::size_t>(gpus));
    std::set<std::pair<int, int>> seen;
    for (const auto& e : m.nvlink->edges) {
      if (e.size() != 3 || e[0] < 0 || e[1] < 0 || e[0] >= gpus || e[1] >= gpus || e[0] == e[1] ||
          e[2] < 1) {
        f.problem("nvlink", fmt::format("an edge is [gpu, gpu, links] with two different GPUs "
                                        "below {} and at least one link",
                                        gpus));
        return;
      }
      if (!seen.insert(std::minmax(e[0], e[1])).second)
        f.problem("nvlink", fmt::format("the edge {}-{} is given twice", e[0], e[1]));
      for (int end : {0, 1})
        if ((used[static_cast<std::size_t>(e[static_cast<std::size_t>(end)])] += e[2]) >
            m.nvlink->links) {
          f.problem("nvlink", fmt::format("GPU {} has more than {} links",
                                          e[static_cast<std::size_t>(end)], m.nvlink->links));
          return;
        }
    }
  }
  if (m.host && m.host->sockets > 1 && m.host->interconnect.value == 0)
    f.problem("host", "several sockets need an interconnect");
  if (m.pcie) check_pcie(f, m);
  if (m.nic.fabric == NicFabric::efa && m.nic.efa == 0)
    f.problem("nic", "fabric: efa needs the generation of EFA too (efa)");
  if (m.nic.efa > 0 && m.nic.fabric && *m.nic.fabric != NicFabric::efa && m.like.empty())
    f.problem("nic", fmt::format("a card with EFA does not speak {}", to_text(*m.nic.fabric)));
  if (m.nic.baseline_bandwidth > m.nic.bandwidth)
    f.problem("nic", "baseline_bandwidth is above bandwidth");
}

}  // namespace

template <class Fields>
void describe(Fields& f, Machine& m) {
  f.optional("like", m.like,
             "machine of foreduce list instances, or ./file.yaml, that this machine starts from; "
             "other keys override its");
  f.required("instance", m.name,
             "name of the instance type; with like, that of the other machine where it is missing");
  f.optional("note", m.note, "anything a reader should know");
  f.optional("price", m.price, "what an hour costs: 10 USD/h, or with its date as a map");
  f.optional("gpu", m.gpu, "the accelerators");
  f.optional("nvlink", m.nvlink, "direct links between GPUs");
  f.optional("host", m.host, "processors and memory");
  f.optional("pcie", m.pcie, "the PCIe tree");
  f.required("nic", m.nic, "network cards");
  f.verify([&](FieldReader& r) { check(r, m); });
}

nlohmann::ordered_json machine_schema() {
  Machine any;
  return SchemaFields::of(any);
}

std::string text_of(const Machine& machine) {
  Machine copy = machine;  // a description may be of a reader's target, so it takes no const
  return FieldText::of(copy);
}

std::string family_of(const Gpu& gpu) { return gpu.model.substr(0, gpu.model.find_first_of(" -")); }

bool is_model(const std::string& model, const std::string& called) {
  if (called.empty() || !model.starts_with(called)) return false;
  if (model.size() == called.size()) return true;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const char next = model[called.size()];
  const bool numbered = is_digit(next) && !is_digit(called.back()) &&
                        std::any_of(called.begin(), called.end(), is_digit);
  return next == ' ' || next == '-' || numbered;
}

Fabric Machine::fabric() const {
  if (nic.efa > 0) return nic.gpudirect ? Fabric::efa : Fabric::efa_host;
  if (nic.fabric) return *nic.fabric == NicFabric::tcp ? Fabric::tcp : Fabric::rdma;
  return nic.gpudirect ? Fabric::rdma : Fabric::tcp;
}

std::vector<YamlLine> lines_of(const Machine& machine) {
  Machine copy = machine;
  return FieldYaml::of(copy);
}

Machine Machine::with_gpus(int count) const {
  if (count < 1 || count > gpus())
    throw input_error(fmt::format("{} has {} GPUs, not {}", name, gpus(), count));
  Machine m = *this;
  m.gpu->count = count;
  const auto unused = [count](int g) { return g >= count; };
  if (m.nvlink)
    std::erase_if(m.nvlink->edges,
                  [&](const std::vector<int>& e) { return unused(e[0]) || unused(e[1]); });
  if (m.nvlink && m.nvlink->kind == NvLinkKind::mesh && m.nvlink->edges.empty()) m.nvlink.reset();
  if (!m.pcie) return m;
  for (PcieSwitch& s : m.pcie->switches) std::erase_if(s.gpus, unused);
  std::erase_if(m.pcie->slow_links, [&](const SlowLink& l) {
    return l.device.starts_with("gpu") && !no_such_device(m, l.device).empty();
  });
  return m;
}

Machine Machine::with_nics(int count) const {
  if (count < 1 || count > nic.count)
    throw input_error(fmt::format("{} has {} NICs, not {}", name, nic.count, count));
  Machine m = *this;
  m.nic.count = count;
  if (!m.pcie) return m;
  std::vector<std::size_t> kept(m.pcie->switches.size());
  for (int left = count; left > 0;)  // one more below each switch, as long as there are any
    for (std::size_t s = 0; s < kept.size() && left > 0; ++s)
      if (kept[s] < m.pcie->switches[s].nics.size()) {
        ++kept[s];
        --left;
      }
  int next = 0;
  std::map<std::string, std::string> renamed;
  for (std::size_t s = 0; s < kept.size(); ++s) {
    m.pcie->switches[s].nics.resize(kept[s]);
    for (int& n : m.pcie->switches[s].nics) {
      renamed[fmt::format("nic{}", n)] = fmt::format("nic{}", next);
      n = next++;
    }
  }
  std::vector<SlowLink> links;
  for (SlowLink& l : m.pcie->slow_links) {
    if (const auto now = renamed.find(l.device); now != renamed.end()) l.device = now->second;
    else if (l.device.starts_with("nic")) continue;
    links.push_back(std::move(l));
  }
  m.pcie->slow_links = std::move(links);
  return m;
}

BytesPerSecond Pcie::link_of(const char* kind, int device) const {
  const std::string name = fmt::format("{}{}", kind, device);
  double share = 1;
  for (const SlowLink& s : slow_links)
    if (s.device == name) share *= s.share;
  return bandwidth * share;
}

Machine Machine::with_slow_links(const std::vector<SlowLink>& links) const {
  Machine m = *this;
  for (const SlowLink& s : links) {
    if (!m.pcie) throw input_error(fmt::format("{} has no PCIe section: no link is known", name));
    if (const std::string why = no_such_device(m, s.device); !why.empty()) throw input_error(why);
    m.pcie->slow_links.push_back(s);
  }
  return m;
}

Machine Machine::flat(BytesPerSecond bandwidth, Seconds latency, BytesPerSecond reduce_bandwidth) {
  Machine m;
  m.name = "switch";
  m.textbook = true;
  m.note = "a port of a flat switch";
  m.gpu.emplace();
  m.gpu->model = "rank";
  m.gpu->count = 1;
  m.gpu->reduce_bandwidth = reduce_bandwidth;
  m.host.emplace();
  m.host->cpu = "server";
  m.host->memory_bandwidth = BytesPerSecond{0};  // no limit: see graph.cpp
  m.host->reduce_bandwidth = reduce_bandwidth;
  m.nic.bandwidth = bandwidth;
  m.nic.latency = latency;
  m.nic.gpudirect = true;
  return m;
}

namespace {

/// The machine that a file's `like:` names.
Machine base_of(const YamlFile& file, const YamlNode& like) {
  constexpr std::size_t kMostBases = 8;
  static thread_local std::size_t depth = 0;
  static thread_local std::vector<std::filesystem::path> on_the_way;
  const auto fail = [&](const std::string& message, const std::string& hint) {
    return InputError(
        Problem{file.name(), like.mark.line, like.mark.column, "like", message, hint, ""});
  };
  if (depth >= kMostBases)
    throw fail(fmt::format("more than {} machines, each like the next", kMostBases), "");
  const std::vector<std::string> known = machine_names();
  if (!names_file(like.text) && std::find(known.begin(), known.end(), like.text) == known.end())
    throw fail(fmt::format("there is no instance called '{}'", like.text),
               suggest(like.text, known));
  std::error_code none;
  const auto here = std::filesystem::weakly_canonical(file.name(), none);
  if (std::find(on_the_way.begin(), on_the_way.end(), here) != on_the_way.end())
    throw fail("this machine is like itself, by way of the machines that it names", "");
  struct Deeper {
    explicit Deeper(const std::filesystem::path& at) {
      ++depth;
      on_the_way.push_back(at);
    }
    ~Deeper() {
      --depth;
      on_the_way.pop_back();
    }
  } const deeper(here);
  Machine base = machine_named(like.text, file.folder());
  base.bases.insert(base.bases.begin(), base.file);
  base.like = base.type();
  return base;
}

/// The count that a file gives of devices, where that is a whole number.
std::optional<int> count_in(const YamlFile& file, const char* section) {
  const YamlNode* devices = file.root().find(section);
  const YamlNode* count = devices ? devices->find("count") : nullptr;
  if (!count || count->kind != YamlNode::Kind::scalar) return std::nullopt;
  int n = 0;
  const char* const end = count->text.data() + count->text.size();
  const auto [rest, error] = std::from_chars(count->text.data(), end, n);
  return error == std::errc() && (rest == end || *rest == ' ') ? std::optional(n) : std::nullopt;
}

/// A base of which a file counts fewer GPUs or NICs, and does not say which PCIe switches they are
/// below: the first GPUs, and as many NICs as possible of each switch, are left. Throws InputError
/// where the file counts more.
Machine with_counts(Machine base, const YamlFile& file) {
  const YamlNode* pcie = file.root().find("pcie");
  if (!base.pcie || (pcie && pcie->find("switches"))) return base;
  const auto too_many = [&](const char* section, int have) {
    const Mark at = file.root().find(section)->find("count")->mark;
    throw InputError(
        Problem{file.name(), at.line, at.column, fmt::format("{}.count", section),
                fmt::format("{} has {}; where more are, say which PCIe switch they are below",
                            base.like, have),
                fmt::format("pcie: {{ switches: … }}, as in {}", base.file.string()), ""});
  };
  if (const auto n = count_in(file, "gpu"); n && base.gpu && *n >= 1) {
    if (*n > base.gpus()) too_many("gpu", base.gpus());
    base = base.with_gpus(*n);
  }
  if (const auto n = count_in(file, "nic"); n && *n >= 1) {
    if (*n > base.nic.count) too_many("nic", base.nic.count);
    base = base.with_nics(*n);
  }
  return base;
}

/// Whether a GPU of the same model computes or reads memory at another rate.
bool is_altered(const Gpu& gpu, const Gpu& base) {
  const auto differ = [](auto a, auto b) { return a.value != b.value; };
  return gpu.model == base.model &&
         (base.altered || differ(gpu.fp16, base.fp16) || differ(gpu.fp32, base.fp32) ||
          differ(gpu.memory_bandwidth, base.memory_bandwidth));
}

}  // namespace

Machine load_machine(const std::filesystem::path& path, Citing citing) {
  YamlFile file = YamlFile::load(path);
  file.citations =
      citing == Citing::required ? YamlFile::Citations::required : YamlFile::Citations::allowed;
  Machine machine;
  const YamlNode* like = file.root().find("like");
  int base_gpus = 0;
  if (like && like->kind == YamlNode::Kind::scalar) {
    machine = base_of(file, *like);
    base_gpus = machine.gpus();
    machine = with_counts(std::move(machine), file);
    machine.name = path.stem().string();
  }
  const std::string base = machine.like,
                    base_note = std::exchange(machine.note, {});  // of what may be otherwise here
  const std::optional<Gpu> base_gpu = machine.gpu;
  read_file(file, machine, like ? FieldReader::Keys::some : FieldReader::Keys::all);
  machine.like = base;
  if (const std::string of = fmt::format("of {}: ", base);
      machine.note.empty() && !base_note.empty())
    machine.note = base_note.starts_with(of) ? base_note : of + base_note;
  if (machine.gpu && base_gpu) machine.gpu->altered = is_altered(*machine.gpu, *base_gpu);
  if (machine.nic.fabric && *machine.nic.fabric != NicFabric::efa && machine.nic.efa > 0) {
    // EFA is the other machine's; what this file says of its own cards stays.
    const YamlNode* nic = file.root().find("nic");
    const Nic told = machine.nic;
    machine = told.fabric == NicFabric::tcp ? over_ena(std::move(machine))
                                            : over_rdma(std::move(machine));
    machine.nic.fabric = told.fabric;
    const auto keep = [&](const char* key, auto member) {
      if (nic && nic->find(key)) machine.nic.*member = told.*member;
    };
    keep("latency", &Nic::latency);
    keep("message_overhead", &Nic::message_overhead);
    keep("flow_limit", &Nic::flow_limit);
    keep("flow_limit_spread", &Nic::flow_limit_spread);
    keep("flows", &Nic::flows);
    keep("gpudirect", &Nic::gpudirect);
    if (!file.root().find("price")) machine.price.reset();  // it is not EC2's
  }
  // An instance type of other GPUs has another price.
  if (like && machine.gpus() != base_gpus && !file.root().find("price")) machine.price.reset();
  machine.file = path;
  machine.citations.insert(machine.citations.end(), file.cited.begin(), file.cited.end());
  return machine;
}

}  // namespace foreduce
