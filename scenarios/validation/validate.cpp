#include "scenarios/validation/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "scenarios/validation/ranking.hpp"
#include "scenarios/report/svg.hpp"
#include "scenarios/validation/evaluation.hpp"
#include "scenarios/validation/training_runs.hpp"

namespace foreduce {
namespace {

/// Points that belong to one row: a source's with as many nodes, GPUs and the same algorithm.
std::string group_of(const Held& h) {
  return fmt::format("{} | {} | {} x {} | {}", h.point.source, h.point.instance, h.point.nodes, h.point.gpus / h.point.nodes,
                     h.point.algorithm);
}

std::string percent(double x) { return fmt::format("{:.1f} %", 100 * x); }

struct Row {
  std::string name, profile;
  std::vector<const Held*> small, large;
};

std::vector<std::string> cells(const Row& row) {
  std::vector<std::string> out{row.name, row.profile};
  for (const auto* part : {&row.small, &row.large}) {
    const Errors e = errors_of(*part);
    const bool any = e.points > 0;
    out.push_back(fmt::format("{}", e.points));
    for (const std::string& text :
         {percent(e.median), percent(e.mean), percent(e.worst), fmt::format("{:+.1f} %", 100 * e.bias), percent(e.in_interval)})
      out.push_back(any ? text : "-");
  }
  return out;
}

nlohmann::ordered_json to_json(const Errors& e) {
  return {{"points", e.points},     {"median_error", e.median}, {"geometric_mean_error", e.mean},
          {"worst_error", e.worst}, {"bias", e.bias},           {"in_interval", e.in_interval}};
}

/// Which flows were fitted, and to what.
std::string flows_line(const std::vector<TrainingPoint>& training) {
  std::map<std::pair<std::string, int>, double> flows;
  for (const TrainingPoint& p : training)
    if (p.gave_flow) flows[{p.source, p.nodes}] = p.flow.value;
  std::string line, source;
  for (const auto& [of, rate] : flows) {
    if (of.first != source)
      line += fmt::format(
          "{}{}: what a TCP flow gets on so many hosts is fitted to their runs of one GPU a node, which are out of the total:",
          line.empty() ? "" : "\n", source = of.first);
    line += fmt::format(" {}: {:.1f} Gb/s{}", of.second, rate * 8e-9, of == flows.rbegin()->first ? "\n" : ",");
  }
  return line;
}

/// One picture a group, named after it, and one of all training runs.
void draw(const std::string& folder, const std::vector<Row>& rows, const std::vector<TrainingPoint>& training) {
  for (const Row& row : rows) {
    Curve curve{row.name, {}};
    for (const auto* part : {&row.small, &row.large})
      for (const Held* h : *part) {
        const double n = h->point.gpus, wire = h->point.bytes.value * 2 * (n - 1) / n;
        curve.points.push_back({h->point.bytes.value, wire / h->point.time.value, wire / h->expected.time.value,
                                wire / h->expected.high.value, wire / h->expected.low.value});
      }
    if (curve.points.size() >= 2) write_svg(folder, row.name, curves_svg(row.name, {curve}));
  }
  std::map<std::string, Cloud> clouds;
  for (const TrainingPoint& p : training) {
    Cloud& cloud = clouds[p.source + (p.nodes == 1 ? ", one node" : ", more nodes")];
    cloud.points.push_back({1e3 * p.measured_step, 1e3 * p.predicted_step});
  }
  std::vector<Cloud> all;
  for (auto& [name, cloud] : clouds) all.push_back({name, std::move(cloud.points)});
  if (!all.empty()) write_svg(folder, "training", scatter_svg("Steps of published training runs", "ms", all));
}

/// Where a source ran ring and tree on the same nodes: whether the faster one is predicted, and from which size on.
std::vector<std::pair<std::string, std::vector<Timed>>> choices_of(const std::vector<Held>& held) {
  std::map<std::string, std::vector<Timed>> by_cluster;
  for (const Held& h : held)
    by_cluster[fmt::format("{} | {} | {} x {}", h.point.source, h.point.instance, h.point.nodes, h.point.gpus / h.point.nodes)]
        .push_back({h.point.algorithm, h.point.bytes.value, h.point.time.value, h.expected.time.value});
  std::vector<std::pair<std::string, std::vector<Timed>>> several;
  for (auto& [name, timed] : by_cluster)
    if (kendall(timed)) several.emplace_back(name, std::move(timed));
  return several;
}

}  // namespace

std::string validate_reference(const ValidateOptions& options, Format format, bool& passed) {
  const std::vector<Published> points = published_all_reduces();
  const Profiles profiles;
  std::map<std::string, std::shared_ptr<const Profile>> by_instance;
  const auto profile_of = [&](const Published& p) {
    auto& profile = by_instance[options.profile.empty() ? p.machine : ""];
    if (!profile)
      profile =
          std::make_shared<const Profile>(options.profile.empty() ? profiles.made_for(p.machine) : profiles.load(options.profile));
    return profile;
  };
  const std::vector<Held> held = hold(points, profile_of, options.jobs);

  std::vector<Row> rows;
  Row fitted{"all that profiles are fitted to", "", {}, {}}, never{"all that no fit may use", "", {}, {}}, all{"all", "", {}, {}};
  for (const Held& h : held) {
    const std::string name = group_of(h);
    auto at = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
    if (at == rows.end()) at = rows.insert(rows.end(), {name, h.profile, {}, {}});
    for (Row* row : {&*at, h.point.fit ? &fitted : &never, &all})
      (h.point.bytes.value < kLarge ? row->small : row->large).push_back(&h);
  }
  const std::vector<TrainingPoint> training = training_reference(options.jobs);
  if (!options.plot.empty()) draw(options.plot, rows, training);
  rows.insert(rows.end(), {fitted, never, all});
  passed = !options.tolerance || errors_of(all.large).mean <= *options.tolerance;
  const std::size_t left = points.size() - held.size();

  if (format == Format::json) {
    nlohmann::ordered_json json = {{"foreduce_version", FOREDUCE_VERSION}, {"kind", "validate"}, {"points_without_machine", left}};
    auto& sources = json["sources"] = nlohmann::ordered_json::array();
    for (const Row& r : rows)
      sources.push_back({{"name", r.name},
                         {"profile", r.profile},
                         {"below_1MiB", to_json(errors_of(r.small))},
                         {"from_1MiB", to_json(errors_of(r.large))}});
    auto& order = json["order"] = nlohmann::ordered_json::array();
    for (const auto& [name, timed] : choices_of(held)) {
      auto& one = order.emplace_back(nlohmann::ordered_json{
          {"name", name}, {"kendall_tau", *kendall(timed)}, {"crossovers", nlohmann::ordered_json::array()}});
      for (const Crossing& c : crossings(timed)) one["crossovers"].push_back(to_text(c));
    }
    auto& list = json["points"] = nlohmann::ordered_json::array();
    for (const Held& h : held)
      list.push_back({{"source", h.point.source},
                      {"instance", h.point.instance},
                      {"nodes", h.point.nodes},
                      {"gpus", h.point.gpus},
                      {"asked", h.point.algorithm},
                      {"size_bytes", h.point.bytes.value},
                      {"published_s", h.point.time.value},
                      {"predicted_s", h.expected.time.value},
                      {"low_s", h.expected.low.value},
                      {"high_s", h.expected.high.value},
                      {"extrapolated", h.expected.extrapolated},
                      {"why", h.expected.why},
                      {"algorithm", h.expected.algorithm},
                      {"protocol", h.expected.protocol},
                      {"profile", h.profile}});
    auto& steps = json["training"] = nlohmann::ordered_json::array();
    for (const TrainingErrors& e : training_errors(training))
      steps.push_back(
          {{"name", e.group},
           {"points", e.n},
           {"median_error", e.median},
           {"worst_error", e.worst},
           {"bias", e.bias},
           {"inside", e.inside},
           {"median_efficiency_error", e.efficiency},
           {"from_one_node",
            {{"points", e.n_from_one_node}, {"median_error", e.median_from_one_node}, {"worst_error", e.worst_from_one_node}}}});
    auto& each = json["training_points"] = nlohmann::ordered_json::array();
    for (const TrainingPoint& p : training)
      each.push_back({{"source", p.source},
                      {"line", p.line},
                      {"library", p.library},
                      {"workload", p.workload},
                      {"precision", p.precision},
                      {"nodes", p.nodes},
                      {"gpus", p.gpus},
                      {"batch", p.batch},
                      {"published_step_s", p.measured_step},
                      {"predicted_step_s", p.predicted_step},
                      {"low_step_s", p.low},
                      {"high_step_s", p.high},
                      {"published_efficiency", p.measured_efficiency},
                      {"predicted_efficiency", p.predicted_efficiency},
                      {"flow_bytes_per_s", p.flow.value},
                      {"gave_flow", p.gave_flow},
                      {"error_from_one_node",
                       p.error_from_one_node ? nlohmann::ordered_json(*p.error_from_one_node) : nlohmann::ordered_json()}});
    return json.dump(2) + "\n";
  }
  Table table;
  if (options.points) {
    table.headings = {"source", "size_B", "published_us", "predicted_us", "low_us", "high_us", "error", "algorithm", "protocol"};
    for (const Held& h : held)
      table.rows.push_back({group_of(h), fmt::format("{:.0f}", h.point.bytes.value),
                            fmt::format("{:.1f}", h.point.time.value * 1e6), fmt::format("{:.1f}", h.expected.time.value * 1e6),
                            fmt::format("{:.1f}", h.expected.low.value * 1e6), fmt::format("{:.1f}", h.expected.high.value * 1e6),
                            fmt::format("{:+.0f} %", 100 * (h.expected.time / h.point.time - 1)), h.expected.algorithm,
                            h.expected.protocol});
  } else {
    table.headings = {"source", "profile",   "<1MiB: n", "median",   "geo.mean", "worst", "bias",
                      "inside", ">=1MiB: n", "median",   "geo.mean", "worst",    "bias",  "inside"};
    for (const Row& r : rows) table.rows.push_back(cells(r));
  }
  if (format == Format::csv) return table.csv();
  std::string order = "\norder of the algorithms where published times differ by more than 10 %, Kendall's tau:\n";
  for (const auto& [name, timed] : choices_of(held)) {
    order += fmt::format("  {}: {:.2f}\n", name, *kendall(timed));
    for (const Crossing& c : crossings(timed)) order += fmt::format("    {}\n", to_text(c));
  }
  return table.text(false) +
         fmt::format(
             "\n{} published points are on hardware that the catalogue has nothing like, or are not NCCL's; they are left out.\n",
             left) +
         "median, geometric mean and worst of |predicted / published - 1| in factors; bias: predicted over published; inside: "
         "share of points within the interval.\n" +
         order + "\n" + training_table(training_errors(training)).text(false) +
         "\ntraining: error of the throughput (positive: optimistic), compute from the measured rate of one GPU; efficiency: "
         "median error of scaling against that GPU;\n"
         "inside: between the bounds that hold nine of ten; from one node: error against what as many GPUs of one node were "
         "measured to take, so of what more nodes add\n" +
         flows_line(training);
}

}  // namespace foreduce
