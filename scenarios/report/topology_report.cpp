// The report of `topology`: what a machine is believed to look like, and how certain each number
// is.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

std::string rate(BytesPerSecond r) {
  return std::isfinite(r.value) ? to_text(r) : std::string("no limit");
}
std::string rate(const Json& r) {
  return r.is_null() ? "no limit" : to_text(BytesPerSecond{r.get<double>()});
}
/// Of a matrix of more GPUs, or the order of them, a line is wider than any page.
constexpr std::size_t kMostInALine = 16;

/// "0-1-2-3"; of more than `most` the first three and the last.
std::string order_of(const Json& gpus, std::size_t most = kMostInALine) {
  const auto all = gpus.get<std::vector<int>>();
  if (all.size() > most) return fmt::format("{}-{}-{}-…-{}", all[0], all[1], all[2], all.back());
  return fmt::format("{}", fmt::join(all, "-"));
}

/// What the machine is made of, a line a part.
std::vector<std::string> parts_of(const Machine& m) {
  std::vector<std::string> lines;
  if (m.gpu)
    lines.push_back(
        fmt::format("{} x {}, {} memory{}{}{}", m.gpu->count, m.gpu->model, to_text(m.gpu->memory),
                    m.gpu->memory_bandwidth.value > 0 ? " at " + rate(m.gpu->memory_bandwidth) : "",
                    m.gpu->fp16.value > 0 ? ", fp16 " + to_text(m.gpu->fp16) : "",
                    m.gpu->fp32.value > 0 ? ", fp32 " + to_text(m.gpu->fp32) : ""));
  if (m.nvlink)
    lines.push_back(fmt::format(
        "NVLink {}: {} links of {} a GPU, {} each way", to_text(m.nvlink->kind), m.nvlink->links,
        to_text(m.nvlink->bandwidth), to_text(m.nvlink->bandwidth * m.nvlink->links)));
  if (m.host)
    lines.push_back(fmt::format("{} x {}, {} memory bandwidth a socket, reduces {}",
                                m.host->sockets, m.host->cpu, rate(m.host->memory_bandwidth),
                                to_text(m.host->reduce_bandwidth)));
  if (m.pcie)
    for (const SlowLink& s : m.pcie->slow_links)
      lines.push_back(
          fmt::format("the PCIe link of {} has {} of its bandwidth", s.device, percent(s.share)));
  lines.push_back(
      fmt::format("{} x {} {}{}, {} a message", m.nic.count, to_text(m.nic.bandwidth),
                  m.nic.efa                         ? fmt::format("EFA v{}", m.nic.efa)
                  : m.nic.fabric == NicFabric::roce ? "RoCE"
                  : m.fabric() == Fabric::rdma      ? "InfiniBand"
                                                    : "ENA (TCP)",
                  m.nic.gpudirect ? ", GPUDirect" : ", no GPUDirect: data cross host memory",
                  to_text(m.nic.latency)));
  if (m.nic.baseline_bandwidth.value > 0)
    lines.push_back(fmt::format(
        "burstable: the baseline bandwidth is {}, which long training gets; predictions assume {}",
        to_text(m.nic.baseline_bandwidth), to_text(m.nic.bandwidth)));
  if (m.nic.flow_limit.value > 0)
    lines.push_back(fmt::format("one flow gets at most {}, {} flows a connection",
                                to_text(m.nic.flow_limit), m.nic.flows));
  if (!m.nic.efa_peers.empty())
    lines.push_back(fmt::format("talks EFA only to {}", fmt::join(m.nic.efa_peers, ", ")));
  if (m.price)
    lines.push_back(fmt::format("{} on demand{}", to_text(m.price->on_demand),
                                m.price->date.empty() ? "" : fmt::format(" ({})", m.price->date)));
  if (!m.note.empty()) lines.push_back("note: " + m.note);
  return lines;
}

/// A GPU or a NIC of a machine.
struct Part {
  bool nic = false;
  int index = 0;
};

/// The narrowest link between every two GPUs.
Json between_gpus(const Machine& m, const NodeGraph& graph) {
  Json rows = Json::array();
  for (int a = 0; a < m.gpus(); ++a) {
    Json& row = rows.emplace_back(Json::array());
    for (int b = 0; b < m.gpus(); ++b) {
      const Path& path = graph.inside({false, a}, {false, b});
      const bool nvlink = !path.links.empty() && graph.link(path.links[0]).kind == LinkKind::nvlink;
      row.push_back(
          a == b ? "."
                 : fmt::format("{:.4g} {}", path.bottleneck.value / 1e9, nvlink ? "NV" : "PCIe"));
    }
  }
  return rows;
}

/// How two parts are connected, in the words of `nvidia-smi topo -m`.
std::string connection(const Machine& m, const Part& a, const Part& b) {
  if (a.nic == b.nic && a.index == b.index) return "X";
  if (!a.nic && !b.nic && m.nvlink) {
    if (m.nvlink->kind == NvLinkKind::through_switch) return fmt::format("NV{}", m.nvlink->links);
    for (const auto& e : m.nvlink->edges)
      if ((e[0] == a.index && e[1] == b.index) || (e[1] == a.index && e[0] == b.index))
        return fmt::format("NV{}", e[2]);
  }
  const auto home = [&](const Part& d) -> const PcieSwitch* {
    if (!m.pcie) return nullptr;
    const auto at =
        std::find_if(m.pcie->switches.begin(), m.pcie->switches.end(), [&](const PcieSwitch& s) {
          const std::vector<int>& ids = d.nic ? s.nics : s.gpus;
          return std::find(ids.begin(), ids.end(), d.index) != ids.end();
        });
    return at == m.pcie->switches.end() ? nullptr : &*at;
  };
  const PcieSwitch *of_a = home(a), *of_b = home(b);
  if (!of_a || !of_b) return "-";
  return of_a == of_b ? "PXB" : of_a->socket == of_b->socket ? "NODE" : "SYS";
}

/// A row a GPU and a NIC, a column a GPU.
Json connections(const Machine& m) {
  Json rows = Json::object();
  const auto add = [&](const std::string& name, const Part& device) {
    Json& row = rows[name] = Json::array();
    for (int g = 0; g < m.gpus(); ++g) row.push_back(connection(m, device, {false, g}));
  };
  for (int g = 0; g < m.gpus(); ++g) add(fmt::format("GPU{}", g), {false, g});
  for (int n = 0; n < m.nic.count; ++n) add(fmt::format("NIC{}", n), {true, n});
  return rows;
}

/// Neighbouring NICs with the same connections stand on one line.
/// What every pair of the first `n` of a matrix has, where all have the same; else "". A row is a
/// list, or the n-th entry of a map.
std::string common_to_pairs(const Json& rows, std::size_t n) {
  std::string common;
  std::size_t a = 0;
  for (auto row = rows.begin(); a < n && row != rows.end(); ++row, ++a)
    for (std::size_t b = 0; b < std::min(n, row->size()); ++b) {
      if (a == b) continue;
      const std::string cell = (*row)[b].get<std::string>();
      if (!common.empty() && cell != common) return "";
      common = cell;
    }
  return common;
}

std::string connections_text(const Json& rows, int gpus, const View& view) {
  const auto n = static_cast<std::size_t>(gpus);
  if (n > kMostInALine && !view.wide)
    if (const std::string common = common_to_pairs(rows, n); !common.empty())
      return "\n" +
             wrapped(fmt::format("connections, as `nvidia-smi topo -m` has them: {} between any "
                                 "two GPUs (all of them with --wide)",
                                 common),
                     view, 2);
  Table table;
  table.column("");
  for (int g = 0; g < gpus; ++g) table.column(fmt::format("GPU{}", g));
  for (auto row = rows.begin(); row != rows.end();) {
    auto next = std::next(row), last = row;
    for (; row.key().starts_with("NIC") && next != rows.end() && *next == *row; ++next) last = next;
    std::vector<std::string> cells{row == last ? row.key()
                                               : row.key() + "-" + last.key().substr(3)};
    for (const Json& cell : *row) cells.push_back(cell);
    table.row(cells);
    row = next;
  }
  return "\nconnections, as `nvidia-smi topo -m` has them:\n" + table.text(view) +
         wrapped(
             "NV#: so many NVLinks. PXB: the same PCIe switch. NODE: the same socket. SYS: the "
             "other socket.",
             view);
}

std::string pairs_text(const Json& rows, const View& view) {
  const std::string heading = "\nbetween GPUs, GB/s of the narrowest link on the way:";
  if (rows.size() > kMostInALine && !view.wide)
    if (const std::string common = common_to_pairs(rows, rows.size()); !common.empty())
      return fmt::format("{} {} for any two\n", heading, common);
  Table pairs;
  pairs.column("");
  for (std::size_t b = 0; b < rows.size(); ++b) pairs.column(fmt::format("gpu{}", b));
  for (std::size_t a = 0; a < rows.size(); ++a) {
    std::vector<std::string> cells{fmt::format("gpu{}", a)};
    for (const Json& cell : rows[a]) cells.push_back(cell);
    pairs.row(cells);
  }
  return heading + "\n" + pairs.text(view);
}

/// Links of the same kind, rate and latency between parts of the same kinds.
struct AlikeLinks {
  std::vector<std::string> cells;  // of the first
  std::string kind;                // "gpu>pcie, PCIe, …"
  std::size_t count = 0;
};

/// A row a link; of a machine whose matrices are folded, a row for all that are alike.
Table links_table(const Json& report, const View& view) {
  const bool folded = view.format != Format::csv && !view.wide &&
                      report.value("gpus", std::size_t{0}) > kMostInALine;
  std::vector<AlikeLinks> rows;
  for (std::size_t i = 0; i < report.at("links").size(); i += 2) {
    const Json& l = report.at("links")[i];
    if (view.format != Format::csv && l.at("bytes_per_s").is_null()) continue;
    AlikeLinks row{{text_or(l, "name"), text_or(l, "kind"), rate(l.at("bytes_per_s")),
                    milliseconds(l.at("latency_s"))},
                   "",
                   1};
    for (const std::string& cell : row.cells) row.kind += cell + "|";
    const auto name_ends = static_cast<std::ptrdiff_t>(row.cells[0].size());
    row.kind.erase(std::remove_if(row.kind.begin(), row.kind.begin() + name_ends,
                                  [](char c) { return c >= '0' && c <= '9'; }),
                   row.kind.begin() + name_ends);
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const AlikeLinks& other) {
      return folded && other.kind == row.kind;
    });
    if (same == rows.end()) rows.push_back(std::move(row));
    else ++same->count;
  }
  Table links;
  for (const char* heading : {"link", "kind", "each way", "latency"}) links.column(heading);
  for (AlikeLinks& row : rows) {
    if (row.count > 1) row.cells[0] += fmt::format(" and {} more", row.count - 1);
    links.row(std::move(row.cells));
  }
  return links;
}

}  // namespace

Json topology_report(const Machine& m) {
  const NodeGraph graph(m);
  const Devices devices = m.cpu_only() ? Devices::servers : Devices::gpus;
  Json j = report_head("topology");
  j["instance"] = m.name;
  j["gpus"] = m.gpus();
  j["rails"] = graph.rails();
  j["gpu_model"] = m.gpu ? Json(m.gpu->model) : Json();
  j["node_egress_bytes_per_s"] = graph.cut_out(devices).value;
  j["node_ingress_bytes_per_s"] = graph.cut_in(devices).value;
  j["nvlink_rings"] = graph.rings();
  j["channels"] = graph.chains();
  j["links"] = Json::array();
  for (std::size_t i = 0; i < graph.link_count(); ++i) {
    const Link& link = graph.link(i);
    j["links"].push_back(
        {{"name", graph.link_name(i)},
         {"kind", name_of(link.kind)},
         {"bytes_per_s", std::isfinite(link.bandwidth.value) ? Json(link.bandwidth.value) : Json()},
         {"latency_s", link.latency.value}});
  }
  const auto sources = Catalogue().sources();
  j["citations"] = Json::array();
  j["sources"] = Json::object();
  for (const auto& c : m.citations) {
    const auto source = std::find_if(sources.begin(), sources.end(),
                                     [&](const Catalogue::Source& s) { return s.id == c.source; });
    const bool known = source != sources.end();
    j["citations"].push_back({{"key", c.key},
                              {"value", c.value},
                              {"source", c.source},
                              {"uncertain", known && source->uncertain}});
    if (known) j["sources"][c.source] = source->text;
  }
  j["parts"] = parts_of(m);
  j["nvlink_bytes_per_s"] = m.nvlink ? Json(m.nvlink->bandwidth.value) : Json();
  j["connections"] = connections(m);
  j["between_gpus_GBps"] = between_gpus(m, graph);
  return j;
}

Document render_topology(const Json& report, const View& view) {
  const Table links = links_table(report, view);
  if (view.format == Format::csv) return links.csv();
  std::string text =
      (view.format == Format::markdown ? "## " : "") + text_or(report, "instance") + "\n";
  for (const Json& line : report.at("parts"))
    text += wrapped("  " + line.get<std::string>(), view, 4);
  text += fmt::format("\nout of the node {}, into it {} (max flow from all {})\n",
                      rate(report.at("node_egress_bytes_per_s")),
                      rate(report.at("node_ingress_bytes_per_s")),
                      report.value("gpus", 0) == 0 ? "host memory" : "GPUs");
  if (!report.at("nvlink_rings").empty()) {
    text += fmt::format("NVLink rings ({} at {} each):\n", report.at("nvlink_rings").size(),
                        rate(report.at("nvlink_bytes_per_s")));
    for (const Json& ring : report.at("nvlink_rings")) text += "  " + order_of(ring) + "\n";
  }
  if (!report.at("channels").empty()) {
    text += "channels between nodes, in by the first GPU, out by the last:\n";
    const std::size_t all = report.at("channels").size(),
                      shown = all > kMostInALine && !view.wide ? 2 : all;
    for (std::size_t c = 0; c < shown; ++c)
      text += fmt::format(
          "  {}: {}\n", c,
          order_of(report.at("channels")[c], view.wide ? kMostGpusANode : kMostInALine));
    if (shown < all) text += fmt::format("  and {} more (--wide)\n", all - shown);
  }
  if (report.value("gpus", 0) > 0)
    text += connections_text(report.at("connections"), report.value("gpus", 0), view);
  if (const Json& rows = report.at("between_gpus_GBps"); rows.size() > 1)
    text += pairs_text(rows, view);
  text += "\n" + links.text(view);
  if (!view.wide && report.value("gpus", std::size_t{0}) > kMostInALine)
    text += "Links that are alike are one row (all of them with --wide).\n";
  std::string doubtful;
  for (const Json& c : report.at("citations")) {
    if (!c.value("uncertain", false)) continue;
    doubtful += fmt::format("  {} = {} ({})\n", text_or(c, "key"), text_or(c, "value"),
                            text_or(c, "source"));
  }
  if (!doubtful.empty()) text += "\nnot read from a source for this very machine:\n" + doubtful;
  if (!view.explain) return text + "--explain prints the sources.\n";
  text += "\nsources:\n";
  for (const auto& [id, source] : report.at("sources").items())
    text += wrapped(fmt::format("  {}: {}", id, source.get<std::string>()), view, 4);
  return text;
}

}  // namespace foreduce
