// The report of `list`: what there is to choose from.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

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

/// The value, or null where there is none.
template <class Value>
Json value_or_null(bool known, Value value) {
  return known ? Json(value) : Json();
}

Json instances_list() {
  Json all = Json::array();
  for (const std::string& name : machine_names()) {
    const Machine m = machine_named(name);
    const bool has_gpu = m.gpu.has_value();
    const double price = m.price ? m.price->on_demand.value : 0;
    all.push_back(
        {{"instance", name},
         {"gpus", m.gpus()},
         {"gpu", has_gpu ? Json(m.gpu->model) : Json()},
         {"gpu_memory_bytes", value_or_null(has_gpu, has_gpu ? m.gpu->memory.value : 0)},
         {"fp16_flop_per_s", value_or_null(has_gpu, has_gpu ? m.gpu->fp16.value : 0)},
         {"nics", m.nic.count},
         {"nic_bytes_per_s", m.nic.bandwidth.value},
         {"efa_version", value_or_null(m.nic.efa > 0, m.nic.efa)},
         {"gpudirect", m.nic.gpudirect},
         {"usd_per_hour", value_or_null(m.price.has_value(), price)},
         {"usd_per_gpu_hour",
          value_or_null(m.price && m.gpus() > 0, price / std::max(1, m.gpus()))},
         {"priced_on", m.price && !m.price->date.empty() ? Json(m.price->date) : Json()}});
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
    Json compared = Json::array();
    for (const Accuracy& a : p.accuracy)
      for (const Compared& c : a.compared)
        compared.push_back({{"instance", c.instance},
                            {"collective", to_text(a.collective)},
                            {"from_bytes", a.least.value},
                            {"to_bytes", a.most.value},
                            {"nodes", c.nodes},
                            {"pi_factor", a.spread}});
    all.push_back({{"profile", p.name},
                   {"library", p.library},
                   {"instances", p.instances},
                   {"compared", std::move(compared)},
                   {"note", p.note}});
  }
  return all;
}

Json workloads_list() {
  Json all = Json::array();
  const Workloads workloads;
  for (const std::string& name : workloads.names()) {
    const Workload w = workloads.load(name);
    Json gpus = Json::array();
    for (const Measured& m : w.measured)
      if (std::find(gpus.begin(), gpus.end(), m.gpu) == gpus.end()) gpus.push_back(m.gpu);
    all.push_back({{"workload", name},
                   {"title", w.title},
                   {"parameters", w.elements()},
                   {"tensors", w.tensors.size()},
                   {"sample", w.variants[0].sample},
                   {"gflop_per_sample", w.variants[0].train_gflop},
                   {"measured_on", std::move(gpus)}});
  }
  return all;
}

/// What a cell says where there is nothing.
constexpr const char* kNone = "-";

/// The entry's value; null where a report of another version lacks it.
Json value_of(const Json& entry, const char* key) { return entry.value(key, Json()); }
/// Of a number that may be missing.
template <class Write>
std::string cell(const Json& entry, const char* key, const Write& write) {
  const Json value = value_of(entry, key);
  return value.is_number() ? write(value.get<double>()) : kNone;
}
std::string plain_cell(const Json& entry, const char* key) {
  const Json value = value_of(entry, key);
  return value.is_null() ? kNone : cell_of(value);
}
std::string joined(const Json& words, const char* between, const char* where_none) {
  std::vector<std::string> all;
  for (const Json& word : words) all.push_back(cell_of(word));
  return all.empty() ? where_none : fmt::format("{}", fmt::join(all, between));
}

Table instances_table(const Json& all) {
  Table table;
  table.column("instance");
  table.column("GPUs");
  table.column("GPU");
  table.column("GPU memory");
  table.column("fp16 TFLOPS", 4);
  table.column("network", 5);
  table.column("EFA", 8);
  table.column("GPUDirect", 8);
  table.column("USD/h", 6);  // the GPU's tells machines of different sizes apart
  table.column("USD/GPU/h", 3);
  table.column("priced on", 8);
  for (const Json& m : all)
    table.row({plain_cell(m, "instance"), plain_cell(m, "gpus"), plain_cell(m, "gpu"),
               cell(m, "gpu_memory_bytes", [](double v) { return to_text(Bytes{v}); }),
               cell(m, "fp16_flop_per_s", [](double v) { return fmt::format("{:.4g}", v / 1e12); }),
               cell(m, "nics",
                    [&](double nics) {
                      return fmt::format("{:.0f} x {:.0f} Gbps", nics,
                                         number_or(m, "nic_bytes_per_s", 0) * 8 / 1e9);
                    }),
               value_of(m, "efa_version").is_null()
                   ? "no"
                   : fmt::format("v{}", number_or(m, "efa_version", 0)),
               value_of(m, "gpudirect") == true ? "yes" : "no",
               cell(m, "usd_per_hour", [](double v) { return fmt::format("{:.4f}", v); }),
               cell(m, "usd_per_gpu_hour", [](double v) { return fmt::format("{:.2f}", v); }),
               plain_cell(m, "priced_on")});
  return table;
}

/// One row for each range of sizes and machine that a profile was compared with.
Table profiles_table(const Json& all) {
  Table table;
  table.column("profile");
  table.column("library", 7);
  table.column("for");
  table.column("measured from");
  table.column("to");
  table.column("nodes");
  table.column("90 % PI");
  table.column("note", 9);
  for (const Json& p : all) {
    const std::string name = plain_cell(p, "profile"), library = plain_cell(p, "library"),
                      note = plain_cell(p, "note");
    const Json compared = value_of(p, "compared");
    if (compared.empty())
      table.row({name, library, joined(value_of(p, "instances"), " ", "any"), kNone, kNone, kNone,
                 kNone, note});
    const auto size = [](double bytes) { return to_text(Bytes{bytes}); };
    for (const Json& c : compared)
      table.row({name, library, plain_cell(c, "instance"), cell(c, "from_bytes", size),
                 cell(c, "to_bytes", size), joined(value_of(c, "nodes"), " ", kNone),
                 fmt::format("x {:.2f} either way", number_or(c, "pi_factor", 0)), note});
  }
  return table;
}

Table workloads_table(const Json& all) {
  Table table;
  table.column("workload");
  table.column("title", 8);
  table.column("parameters");
  table.column("tensors", 8);
  table.column("sample");
  table.column("GFLOP/sample");
  table.column("measured on");
  for (const Json& w : all)
    table.row({plain_cell(w, "workload"), plain_cell(w, "title"), plain_cell(w, "parameters"),
               plain_cell(w, "tensors"), plain_cell(w, "sample"),
               cell(w, "gflop_per_sample", [](double v) { return fmt::format("{:.4g}", v); }),
               joined(value_of(w, "measured_on"), ", ", "- (estimate)")});
  return table;
}

/// What real/transports.hpp says of each.
Table transports_table(const Json& all) {
  Table table;
  for (const char* heading : {"transport", "available", "what"}) table.column(heading);
  for (const Json& t : all)
    table.row({plain_cell(t, "transport"), value_of(t, "available") == true ? "yes" : "no",
               plain_cell(t, "what")});
  return table;
}

Table algorithms_table(const Json& all) {
  Table table;
  for (const char* heading : {"algorithm", "collective", "idea", "cost", "wins", "source", "from"})
    table.column(heading);
  for (const Json& a : all)
    table.row({plain_cell(a, "algorithm"), plain_cell(a, "collective"), plain_cell(a, "idea"),
               plain_cell(a, "cost"), plain_cell(a, "wins"), plain_cell(a, "source"),
               plain_cell(a, "from")});
  return table;
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
  const Table table = what == "algorithms"   ? algorithms_table(all)
                      : what == "instances"  ? instances_table(all)
                      : what == "profiles"   ? profiles_table(all)
                      : what == "transports" ? transports_table(all)
                                             : workloads_table(all);
  return view.format == Format::csv ? table.csv() : table.text(view) + hidden_line(table, view);
}

}  // namespace foreduce
