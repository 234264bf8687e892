#include "scenarios/core/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "models/layout_of.hpp"

namespace foreduce {
namespace {

using Json = nlohmann::ordered_json;

bool numeric(const std::string& cell) { return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell[0])) || cell[0] == '-'); }

/// Letters, not bytes: "§" is one.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

Json head(const Scenario& s, const char* kind) {
  Json engine = {{"simulator", "SimGrid 3.32"}};
  for (const EngineSetting& setting : engine_settings()) engine[setting.name] = setting.value;
  return {{"foreduce_version", FOREDUCE_VERSION}, {"kind", kind}, {"name", s.name}, {"scenario", s.file}, {"scenario_hash", s.hash},
          {"unused_keys", s.unused}, {"engine", engine}};
}

std::string engine_line() {
  return "SimGrid 3.32, model CM02; latency x1, bandwidth x1, no cross-traffic, no TCP window: a link does what its data sheet says";
}

std::string unused_line(const Scenario& s) {
  return s.unused.empty() ? "" : fmt::format("without effect here: {}\n", fmt::join(s.unused, ", "));
}

template <class Points, class Get>
bool varies(const Points& points, Get get) {
  return std::any_of(points.begin(), points.end(), [&](const auto& p) { return get(p) != get(points[0]); });
}

std::string method(const std::string& algorithm, const std::string& inner) {
  return inner.empty() || inner == "ring" ? algorithm : algorithm + "/" + inner;
}

std::string link_words(const std::string& link, LinkKind kind) {
  return link == "latency" ? link : fmt::format("{} ({})", link, name_of(kind));
}

}  // namespace

std::string Table::text(bool colour) const {
  std::vector<std::size_t> widths;
  for (const auto& h : headings) widths.push_back(width(h));
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells, bool heading) {
    std::string one;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string space(widths[c] - width(cells[c]), ' ');
      const bool right = heading ? !rows.empty() && numeric(rows[0][c]) : numeric(cells[c]);
      one += (c ? "  " : "") + (right ? space + cells[c] : cells[c] + space);
    }
    one.erase(one.find_last_not_of(' ') + 1);
    out += (heading && colour ? "\033[1m" + one + "\033[0m" : one) + "\n";
  };
  line(headings, true);
  for (const auto& row : rows) line(row, false);
  return out;
}

std::string Table::csv() const {
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    for (std::size_t c = 0; c < cells.size(); ++c) {
      std::string cell = cells[c];
      if (cell.find_first_of(",\"\n") != std::string::npos) {
        for (std::size_t at = 0; (at = cell.find('"', at)) != std::string::npos; at += 2) cell.insert(at, "\"");
        cell = "\"" + cell + "\"";
      }
      out += (c ? "," : "") + cell;
    }
    out += "\n";
  };
  line(headings);
  for (const auto& row : rows) line(row);
  return out;
}

Json to_json(const Prediction& p) {
  Json j = {{"model", p.model},         {"precision", p.precision},       {"batch_per_gpu", p.batch_per_gpu},
            {"accumulation", p.accumulation}, {"instance", p.instance},   {"nodes", p.nodes},
            {"gpus", p.gpus},           {"oversubscription", p.oversubscription}, {"algorithm", p.algorithm},
            {"inner", p.inner},         {"dedicated_servers", p.servers}, {"bucket_bytes", static_cast<std::uint64_t>(p.bucket.value)},
            {"segments", p.segments}};
  if (!p.error.empty()) {
    j["error"] = p.error;
    return j;
  }
  j["step_time_s"] = p.step.total.value;
  j["compute_time_s"] = p.step.compute.value;
  j["communication_time_s"] = p.step.communication.value;
  j["exposed_communication_s"] = p.step.exposed_communication.value;
  j["throughput_samples_per_s"] = p.throughput;
  j["scaling_efficiency"] = p.efficiency_gpu;
  j["scaling_efficiency_against"] = "one GPU without communication";
  j["scaling_efficiency_vs_one_node"] = p.efficiency_node > 0 ? Json(p.efficiency_node) : Json();
  j["usd_per_hour"] = p.priced ? Json(p.price.value) : Json();
  j["usd_per_million_samples"] = p.priced ? Json(p.usd_per_million_samples) : Json();
  j["bottleneck_link"] = p.bottleneck;
  j["bottleneck_utilisation"] = p.bottleneck_utilisation;
  j["buckets"] = p.step.buckets.size();
  j["compute_measured"] = p.compute_measured;
  j["compute_source"] = p.compute_source;
  j["mode"] = p.cached ? "cached" : p.folded ? "folded" : "plain";
  j["simulated_messages"] = p.messages;
  j["wall_seconds"] = p.wall_seconds;
  j["peak_rss_bytes"] = p.peak_rss_bytes;
  return j;
}

Json to_json(const Comparison& p) {
  Json j = {{"instance", p.instance}, {"nodes", p.nodes},     {"ranks", p.ranks}, {"oversubscription", p.oversubscription},
            {"algorithm", p.algorithm}, {"inner", p.inner},   {"segments", p.segments}, {"bytes", p.bytes},
            {"count", p.count},       {"type", p.dtype},      {"redop", "sum"}};
  if (!p.error.empty()) {
    j["error"] = p.error;
    return j;
  }
  j["time_us"] = p.time.value * 1e6;
  j["algbw_GBps"] = p.algbw();
  j["busbw_GBps"] = p.busbw();
  j["bound_time_us"] = p.bound.time.value * 1e6;
  j["bound_because"] = p.bound.because;
  j["share_of_bound"] = p.time.value > 0 ? p.bound.time / p.time : 1;
  j["bottleneck_link"] = p.bottleneck;
  j["mode"] = p.folded ? "folded" : "plain";
  j["simulated_messages"] = p.messages;
  j["wall_seconds"] = p.wall_seconds;
  j["peak_rss_bytes"] = p.peak_rss_bytes;
  return j;
}

std::string report(const Scenario& scenario, const std::vector<Prediction>& points, Format format, bool colour) {
  if (format == Format::json) {
    Json j = head(scenario, "predict");
    j["points"] = Json::array();
    for (const auto& p : points) j["points"].push_back(to_json(p));
    return j.dump(2) + "\n";
  }
  Table table;
  if (format == Format::csv) {
    Json longest;  // a failed point has fewer fields; the columns are those of a complete one
    for (const auto& p : points)
      if (const Json j = to_json(p); j.size() > longest.size()) longest = j;
    for (const auto& [key, value] : longest.items()) table.headings.push_back(key);
    if (!longest.contains("error")) table.headings.emplace_back("error");
    for (const auto& p : points) {
      const Json j = to_json(p);
      auto& row = table.rows.emplace_back();
      for (const auto& key : table.headings) row.push_back(!j.contains(key) || j[key].is_null() ? "" : j[key].is_string() ? j[key].get<std::string>() : j[key].dump());
    }
    return table.csv();
  }

  // A column for each axis that varies, and always the ones people look for.
  const bool models = varies(points, [](const auto& p) { return p.model; }), precisions = varies(points, [](const auto& p) { return p.precision; });
  const bool batches = varies(points, [](const auto& p) { return p.batch_per_gpu; }), instances = varies(points, [](const auto& p) { return p.instance; });
  const bool overs = varies(points, [](const auto& p) { return p.oversubscription; }), buckets = varies(points, [](const auto& p) { return p.bucket.value; });
  const bool segments = varies(points, [](const auto& p) { return p.segments; }), servers = varies(points, [](const auto& p) { return p.servers; });
  const bool accumulations = varies(points, [](const auto& p) { return p.accumulation; });
  const auto head_if = [&](bool wanted, const char* name) {
    if (wanted) table.headings.emplace_back(name);
  };
  head_if(models, "model");
  head_if(precisions, "precision");
  head_if(batches, "batch");
  head_if(accumulations, "accum");
  head_if(instances, "instance");
  head_if(true, "nodes");
  head_if(true, "GPUs");
  head_if(overs, "oversub");
  head_if(true, "algorithm");
  head_if(servers, "servers");
  head_if(buckets, "bucket");
  head_if(segments, "segments");
  for (const char* h : {"step", "compute", "exposed", "samples/s", "eff(GPU)", "eff(node)", "$/h", "$/M samples", "busiest link"}) head_if(true, h);
  std::set<std::string> sources;
  for (const auto& p : points) {
    auto& row = table.rows.emplace_back();
    const auto cell = [&](bool wanted, std::string text) {
      if (wanted) row.push_back(std::move(text));
    };
    cell(models, p.model);
    cell(precisions, p.precision);
    cell(batches, fmt::format("{}", p.batch_per_gpu));
    cell(accumulations, fmt::format("{}", p.accumulation));
    cell(instances, p.instance);
    cell(true, fmt::format("{}", p.nodes));
    cell(true, fmt::format("{}", p.gpus));
    cell(overs, fmt::format("{}:1", p.oversubscription));
    cell(true, method(p.algorithm, p.inner));
    cell(servers, p.servers ? fmt::format("{}", p.servers) : "-");
    cell(buckets, to_text(p.bucket));
    cell(segments, p.segments ? fmt::format("{}", p.segments) : "auto");
    if (!p.error.empty()) {
      for (int i = 0; i < 8; ++i) row.emplace_back("-");
      row.push_back("error: " + p.error.substr(0, p.error.find('\n')));
      continue;
    }
    sources.insert(fmt::format("compute of {} on {}: {}", p.model, p.instance, p.compute_source));
    for (const Seconds s : {p.step.total, p.step.compute, p.step.exposed_communication}) row.push_back(to_text(s));
    row.push_back(fmt::format("{:.1f}", p.throughput));
    row.push_back(fmt::format("{:.1f} %", 100 * p.efficiency_gpu));
    row.push_back(p.efficiency_node > 0 ? fmt::format("{:.1f} %", 100 * p.efficiency_node) : "-");
    row.push_back(p.priced ? fmt::format("{:.2f}", p.price.value) : "-");
    row.push_back(p.priced ? fmt::format("{:.2f}", p.usd_per_million_samples) : "-");
    row.push_back(p.gpus == 1 ? "-" : fmt::format("{} {:.0f} %", link_words(p.bottleneck, p.bottleneck_kind), 100 * p.bottleneck_utilisation));
  }
  std::string text = scenario.name + "\n\n" + table.text(colour) + "\n";
  text += "eff(GPU): against as many times one GPU without communication; eff(node): against as many times one node, same algorithm\n";
  text += "exposed: what communication adds to the step; busiest link: during the all-reduce of the largest bucket\n";
  for (const auto& s : sources) text += s + "\n";
  return text + unused_line(scenario) + engine_line() + "\n";
}

std::string report(const Scenario& scenario, const std::vector<Comparison>& points, Format format, bool colour) {
  if (format == Format::json) {
    Json j = head(scenario, "compare");
    j["points"] = Json::array();
    for (const auto& p : points) j["points"].push_back(to_json(p));
    return j.dump(2) + "\n";
  }
  Table table;
  const bool csv = format == Format::csv;
  const bool instances = csv || varies(points, [](const auto& p) { return p.instance; }), nodes = csv || varies(points, [](const auto& p) { return p.nodes; });
  const bool overs = csv || varies(points, [](const auto& p) { return p.oversubscription; });
  const auto head_if = [&](bool wanted, const char* name) {
    if (wanted) table.headings.emplace_back(name);
  };
  head_if(instances, "instance");
  head_if(nodes, "nodes");
  head_if(csv, "ranks");
  head_if(overs, csv ? "oversubscription" : "oversub");
  for (const char* h : {"size", "count", "type", "redop"}) head_if(true, csv && h == std::string("size") ? "bytes" : h);
  head_if(true, "algorithm");
  head_if(true, csv ? "time_us" : "time");
  head_if(true, csv ? "algbw_GBps" : "algbw");
  head_if(true, csv ? "busbw_GBps" : "busbw");
  head_if(true, csv ? "bound_time_us" : "bound");
  head_if(true, csv ? "share_of_bound" : "of bound");
  head_if(true, csv ? "bottleneck_link" : "busiest link");
  head_if(csv, "error");
  for (const auto& p : points) {
    auto& row = table.rows.emplace_back();
    const auto cell = [&](bool wanted, std::string text) {
      if (wanted) row.push_back(std::move(text));
    };
    cell(instances, p.instance);
    cell(nodes, fmt::format("{}", p.nodes));
    cell(csv, fmt::format("{}", p.ranks));
    cell(overs, csv ? fmt::format("{}", p.oversubscription) : fmt::format("{}:1", p.oversubscription));
    cell(true, fmt::format("{}", p.bytes));
    cell(true, fmt::format("{}", p.count));
    cell(true, p.dtype);
    cell(true, "sum");
    cell(true, method(p.algorithm, p.inner));
    const bool ok = p.error.empty();
    const std::string none = csv ? "" : "-";
    const auto figure = [&](double value, int digits) {
      return !ok ? none : csv ? fmt::format("{}", value) : fmt::format("{:.{}f}", value, digits);
    };
    cell(true, figure(p.time.value * 1e6, 1));
    cell(true, figure(p.algbw(), 2));
    cell(true, figure(p.busbw(), 2));
    cell(true, figure(p.bound.time.value * 1e6, 1));
    const double share = p.time.value > 0 ? p.bound.time / p.time : 1;
    cell(true, csv ? figure(share, 0) : figure(100 * share, 0) + (ok ? " %" : ""));
    cell(true, ok ? p.bottleneck : csv ? "" : "error: " + p.error.substr(0, p.error.find('\n')));
    cell(csv, p.error);
  }
  if (csv) return table.csv();
  const auto& first = points.front();
  std::string where = instances || nodes ? "" : fmt::format(", {} x {}, {} ranks", first.nodes, first.instance, first.ranks);
  return scenario.name + where + "\n\n" + table.text(colour) +
         "\nsize in bytes, time and bound in us, algbw and busbw in GB/s (10^9), busbw = algbw * 2(n-1)/n as in nccl-tests\n"
         "bound: the best that any all-reduce without reduction in switches could do on this topology\n" +
         unused_line(scenario) + engine_line() + "\n";
}

std::string describe(const Machine& m, Format format) {
  const NodeGraph graph(m);
  const auto rate = [](BytesPerSecond r) { return std::isfinite(r.value) ? to_text(r) : std::string("no limit"); };
  const auto ring_text = [](const std::vector<int>& ring) { return fmt::format("{}", fmt::join(ring, "-")); };
  std::vector<std::string> doubtful;
  for (const auto& c : m.citations)
    if (c.source == "recalled" || c.source == "assumed" || c.source == "derived" || c.source == "optcast" || c.source == "OSU-hpc6a")
      doubtful.push_back(fmt::format("{} = {} ({})", c.key, c.value, c.source));
  if (format == Format::json) {
    Json j = {{"foreduce_version", FOREDUCE_VERSION}, {"kind", "topology"}, {"instance", m.name}, {"gpus", m.gpus()}, {"rails", graph.rails()}};
    j["gpu_model"] = m.gpu ? Json(m.gpu->model) : Json();
    j["nodes_egress_bytes_per_s"] = graph.cut_out().value;
    j["nodes_ingress_bytes_per_s"] = graph.cut_in().value;
    j["nvlink_rings"] = graph.rings();
    j["channels"] = graph.chains();
    j["links"] = Json::array();
    for (std::size_t i = 0; i < graph.link_count(); ++i)
      j["links"].push_back({{"name", graph.link_name(i)}, {"kind", name_of(graph.link(i).kind)}, {"bytes_per_s", std::isfinite(graph.link(i).bandwidth.value) ? Json(graph.link(i).bandwidth.value) : Json()}, {"latency_s", graph.link(i).latency.value}});
    j["citations"] = Json::array();
    for (const auto& c : m.citations) j["citations"].push_back({{"key", c.key}, {"value", c.value}, {"source", c.source}});
    return j.dump(2) + "\n";
  }
  Table links;
  links.headings = {"link", "kind", "each way", "latency"};
  for (std::size_t i = 0; i < graph.link_count(); i += 2) {
    const Link& l = graph.link(i);
    if (format == Format::table && !std::isfinite(l.bandwidth.value)) continue;
    links.rows.push_back({graph.link_name(i), name_of(l.kind), rate(l.bandwidth), to_text(l.latency)});
  }
  if (format == Format::csv) return links.csv();

  std::string text = fmt::format("{}\n", m.name);
  if (m.gpu)
    text += fmt::format("  {} x {}, {} memory at {}, fp16 {}, fp32 {}\n", m.gpu->count, m.gpu->model, to_text(m.gpu->memory), rate(m.gpu->memory_bandwidth),
                        to_text(m.gpu->fp16), to_text(m.gpu->fp32));
  if (m.nvlink)
    text += fmt::format("  NVLink {}: {} links of {} a GPU, {} each way\n", m.nvlink->kind, m.nvlink->links, to_text(m.nvlink->bandwidth),
                        to_text(m.nvlink->bandwidth * m.nvlink->links));
  if (m.host) text += fmt::format("  {} x {}, {} memory bandwidth a socket, folds {}\n", m.host->sockets, m.host->cpu, rate(m.host->memory_bandwidth), to_text(m.host->fold_rate));
  text += fmt::format("  {} x {} {}{}, {} a message\n", m.nic.count, to_text(m.nic.bandwidth), m.nic.efa ? fmt::format("EFA v{}", m.nic.efa) : "ENA (TCP)",
                      m.nic.gpudirect ? ", GPUDirect" : ", no GPUDirect: data cross host memory", to_text(m.nic.latency));
  if (m.nic.flow_limit.value > 0) text += fmt::format("  one flow gets at most {}, {} flows a connection\n", to_text(m.nic.flow_limit), m.nic.flows);
  if (!m.nic.efa_peers.empty()) text += fmt::format("  talks EFA only to {}\n", fmt::join(m.nic.efa_peers, ", "));
  if (m.price) text += fmt::format("  {} on demand ({})\n", to_text(m.price->on_demand), m.price->date);
  if (!m.note.empty()) text += "  note: " + m.note + "\n";
  text += fmt::format("\nout of the node {}, into it {} (max flow from all {})\n", rate(graph.cut_out()), rate(graph.cut_in()), m.is_server() ? "host memory" : "GPUs");
  if (!graph.rings().empty()) {
    text += fmt::format("NVLink rings ({} at {} each):\n", graph.rings().size(), to_text(m.nvlink->bandwidth));
    for (const auto& r : graph.rings()) text += "  " + ring_text(r) + "\n";
  }
  if (!graph.chains().empty()) {
    text += "channels between nodes, in by the first GPU, out by the last:\n";
    for (std::size_t c = 0; c < graph.chains().size(); ++c) text += fmt::format("  {}: {}\n", c, ring_text(graph.chains()[c]));
  }
  if (m.gpus() > 1) {
    text += "\nbetween GPUs (narrowest link on the way):\n";
    Table pairs;
    pairs.headings.emplace_back("");
    for (int b = 0; b < m.gpus(); ++b) pairs.headings.push_back(fmt::format("gpu{}", b));
    for (int a = 0; a < m.gpus(); ++a) {
      auto& row = pairs.rows.emplace_back(std::vector<std::string>{fmt::format("gpu{}", a)});
      for (int b = 0; b < m.gpus(); ++b) {
        const Path& path = graph.inside({false, a}, {false, b});
        row.push_back(a == b ? "." : fmt::format("{:.4g} {}", path.bottleneck.value / 1e9, graph.link(path.links[0]).kind == LinkKind::nvlink ? "NV" : "PCIe"));
      }
    }
    text += pairs.text(false);
  }
  text += "\n" + links.text(false);
  if (!doubtful.empty()) {
    text += "\nnot read from a source for this very machine:\n";
    for (const auto& d : doubtful) text += "  " + d + "\n";
  }
  return text;
}

}  // namespace foreduce
