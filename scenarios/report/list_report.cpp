// The report of `list`: what there is to choose from.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

constexpr std::string_view kBuiltIn = "built in";

Json algorithms_list() {
  Json all = Json::array();
  for (const Algorithm* a : all_algorithms())
    all.push_back({{"algorithm", a->name},
                   {"collective", title_of(a->collective)},
                   {"idea", a->idea},
                   {"cost", a->cost},
                   {"wins", a->wins},
                   {"source", a->source},
                   {"from", a->origin.empty() ? kBuiltIn : a->origin}});
  return all;
}

Json instances_list() {
  Json all = Json::array();
  for (const std::string& name : machine_names()) {
    const Machine m = machine_named(name);
    all.push_back(
        {{"instance", name},
         {"GPUs", fmt::format("{}", m.gpus())},
         {"GPU", m.gpu ? m.gpu->model : "-"},
         {"GPU memory", m.gpu ? to_text(m.gpu->memory) : "-"},
         {"fp16 TFLOPS", m.gpu ? fmt::format("{:.4g}", m.gpu->fp16.value / 1e12) : "-"},
         {"network", fmt::format("{} x {:.0f} Gbps", m.nic.count, m.nic.bandwidth.value / 125e6)},
         {"EFA", m.nic.efa ? fmt::format("v{}", m.nic.efa) : "no"},
         {"GPUDirect", m.nic.gpudirect ? "yes" : "no"},
         {"USD/h", m.price ? fmt::format("{:.4f}", m.price->on_demand.value) : "-"},
         {"USD/GPU/h", m.price && m.gpus() > 0
                           ? fmt::format("{:.2f}", m.price->on_demand.value / m.gpus())
                           : "-"},
         {"priced on", m.price && !m.price->date.empty() ? m.price->date : "-"}});
  }
  return all;
}

Json profiles_list() {
  Json all = Json::array();
  const Profiles profiles;
  std::vector<Profile> shipped;
  for (const std::string& name : profiles.names()) shipped.push_back(profiles.load(name));
  for (const std::string& name : profiles.fabrics()) {
    shipped.push_back(profiles.load_fabric(name));
    shipped.back().name = "+" + name;
  }
  for (const Profile& p : shipped) {
    const auto add = [&](std::string where, std::string from, std::string to, std::string nodes,
                         std::string within) {
      all.push_back({{"profile", p.name},
                     {"library", p.library},
                     {"for", where},
                     {"measured from", from},
                     {"to", to},
                     {"nodes", nodes},
                     {"90 % PI", within},
                     {"note", p.note}});
    };
    if (p.accuracy.empty())
      add(p.instances.empty() ? "any" : fmt::format("{}", fmt::join(p.instances, " ")), "-", "-",
          "-", "-");
    for (const Accuracy& a : p.accuracy)
      for (const Compared& c : a.compared)
        add(c.instance, to_text(a.least), to_text(a.most),
            fmt::format("{}", fmt::join(c.nodes, " ")),
            fmt::format("x {:.2f} either way", a.spread));
  }
  return all;
}

Json workloads_list() {
  Json all = Json::array();
  const Workloads workloads;
  for (const std::string& name : workloads.names()) {
    const Workload w = workloads.load(name);
    std::string gpus;
    for (const Measured& m : w.measured)
      if (gpus.find(m.gpu) == std::string::npos) gpus += (gpus.empty() ? "" : ", ") + m.gpu;
    all.push_back({{"workload", name},
                   {"title", w.title},
                   {"parameters", fmt::format("{}", w.elements())},
                   {"tensors", fmt::format("{}", w.tensors.size())},
                   {"sample", w.variants[0].sample},
                   {"GFLOP/sample", fmt::format("{:.4g}", w.variants[0].train_gflop)},
                   {"measured on", gpus.empty() ? "- (estimate)" : gpus}});
  }
  return all;
}

/// What a heading is worth where there is no room for all.
int rank_of(const std::string& heading) {
  return heading == "note"          ? 9
         : heading == "library"     ? 7
         : heading == "USD/h"       ? 6  // the GPU's tells machines of different sizes apart
         : heading == "network"     ? 5
         : heading == "fp16 TFLOPS" ? 4
         : heading == "USD/GPU/h"   ? 3
         : heading == "priced on" || heading == "GPUDirect" || heading == "EFA" ||
                 heading == "tensors" || heading == "title"
             ? 8
             : 0;
}

}  // namespace

Json list_report(const std::string& what) {
  Json j = report_head("list");
  j["what"] = what;
  j[what] = what == "algorithms"  ? algorithms_list()
            : what == "instances" ? instances_list()
            : what == "profiles"  ? profiles_list()
                                  : workloads_list();
  return j;
}

Document render_list(const Json& report, const View& view) {
  const std::string what = text_or(report, "what");
  const Json& all = report.at(what);
  if (view.format == Format::table && what == "algorithms") {  // too wide for a table
    std::string text;
    for (const Json& a : all) {
      text += fmt::format("{}, {}\n", text_or(a, "algorithm"), text_or(a, "collective"));
      for (const char* key : {"idea", "cost", "wins", "source"})
        text += wrapped(fmt::format("  {:<7} {}", key, a.value(key, "")), view, 10);
      if (a.value("from", kBuiltIn) != kBuiltIn)
        text += fmt::format("  from    {}\n", text_or(a, "from"));
    }
    return text + "\n" +
           wrapped(
               "n ranks on N nodes, g GPUs a node, q rails, S bytes of data. α is the latency of a "
               "message, β its time per byte and γ the time to reduce a byte, over NVLink (nv) or "
               "between nodes (net, nic). A is the number of messages one after another of the "
               "algorithm between nodes. Where an algorithm is named, nccl (what NCCL chooses), "
               "smddp (SageMaker's library) and best (the fastest) can be named, too.",
               view, 2);
  }
  Table table;
  std::vector<std::string> headings;
  if (!all.empty())
    for (const auto& [heading, cell] : all.at(0).items()) headings.push_back(heading);
  for (const std::string& heading : headings) table.column(heading, rank_of(heading));
  for (const Json& entry : all) {
    std::vector<std::string> row;
    for (const std::string& heading : headings)
      row.push_back(cell_of(entry.value(heading, Json())));
    table.row(row);
  }
  return view.format == Format::csv ? table.csv() : table.text(view) + hidden_line(table, view);
}

}  // namespace foreduce
