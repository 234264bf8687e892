// The report of `plan`: which cluster to take, then the clusters that are worth a look.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "models/statistics.hpp"
#include "scenarios/report/axes.hpp"
#include "scenarios/report/predict_table.hpp"
#include "scenarios/report/sharding_report.hpp"
#include "scenarios/report/words.hpp"
#include "scenarios/sweep/cases.hpp"

namespace foreduce {
namespace {

Json planned_report(const Prediction& point, const Planned& p) {
  Json j = point_report(point, Cost::left_out);
  const Interval& i = p.interval;
  const auto usd = [&](Seconds time) {
    return p.cost ? Json(p.cost->value * (time / p.time)) : Json();
  };
  j["time_s"] = p.time.value;
  j["time_low_s"] = i.known ? Json(i.low.value) : Json();
  j["time_high_s"] = i.known ? Json(i.high.value) : Json();
  j["usd"] = usd(p.time);
  j["usd_low"] = i.known ? usd(i.low) : Json();
  j["usd_high"] = i.known ? usd(i.high) : Json();
  j["missed"] = p.missed;
  j["robust"] = p.robust;
  j["front"] = p.front;
  return j;
}

/// "4, 8 x p5.48xlarge, zero3/8, bf16: …" of each: what it is, as far as it tells it from others.
Json left_out_report(const std::vector<LeftOut>& all, const Json& points) {
  Json j = Json::array();
  const TrainingWords training(points);
  for (const LeftOut& l : all) {
    std::string what = training(points[l.point]);
    if (!l.algorithms.empty()) what += fmt::format(", {}", fmt::join(l.algorithms, ", "));
    const std::string nodes = fmt::format("{}", fmt::join(l.nodes, ", "));
    j.push_back(fmt::format("{}{}: {}", cluster_words(nodes, l.instance), what, l.why));
  }
  return j;
}

/// A unit that suits all times of a column.
std::pair<const char*, double> unit_of(double typical_s) {
  if (typical_s >= 172800) return {"d", 86400};
  if (typical_s >= 3600) return {"h", 3600};
  return typical_s >= 60 ? std::pair{"min", 60.0} : std::pair{"s", 1.0};
}

/// Samples of a step. GPUs that share a model see the same ones; a damaged report may name none.
double batch_of(const Json& p) {
  const auto sharing = [&](const char* key) { return std::max(1, p.value(key, 1)); };
  return std::floor(1.0 * p.value("gpus", 0) * p.value("batch_per_gpu", 0) *
                    p.value("accumulation", 1) / sharing("tensor_parallel") /
                    sharing("context_parallel") / sharing("pipeline"));
}

/// "8 x p4d.24xlarge, nccl": a cluster and its method, and what else tells it from the others.
std::string planned_words(const Json& p, const std::vector<AxisColumn>& axes) {
  static const std::set<std::string> kSaid = {"instance", "nodes", "GPUs", "algorithm", "profile"};
  std::string name = fmt::format("{}, {}", cluster_words(p), text_or(p, "algorithm"));
  for (const AxisColumn& axis : axes)
    if (!kSaid.contains(axis.heading)) name += fmt::format(", {} {}", axis.heading, axis.cell(p));
  return name;
}

std::string time_and_cost(const Json& p) {
  const std::string time = milliseconds(number_or(p, "time_s", 0));
  return time + ", " +
         (p.at("usd").is_null() ? "without a price (cluster.prices gives one)"
                                : to_text(Dollars{p.at("usd").get<double>()}));
}

const Json* point_numbered(const Json& report, const char* role) {
  if (!report.contains(role) || report.at(role).is_null()) return nullptr;
  for (const Json& p : report.at("points"))
    if (p.at("point") == report.at(role)) return &p;
  return nullptr;
}

/// Three digits at least, where there are cents.
std::string usd_words(double usd) {
  return fmt::format("{:.{}f}", usd, usd < 10 ? 2 : usd < 100 ? 1 : 0);
}

/// What a row is, among all.
std::string role_of(const Json& report, const Json& p) {
  std::string roles;
  for (const auto& [key, word] : {std::pair("cheapest", "cheapest"),
                                  {"fastest", "fastest"},
                                  {"most_robust", "most robust"},
                                  {"robust_by_estimate", "robust?"}})
    if (report.contains(key) && report[key] == p.at("point"))
      roles += (roles.empty() ? "" : ", ") + std::string(word);
  return roles.empty() ? "-" : roles;
}

std::string goal_words(const Json& report) {
  const Json& goal = report.at("goal");
  const double samples = goal.at("samples");
  std::string text =
      fmt::format("Goal: {} sample{}", to_text(Count{samples}), samples == 1 ? "" : "s");
  if (goal.contains("tokens") && goal.at("tokens").is_number())
    text = fmt::format("Goal: {} tokens ({} samples)",
                       to_text(Count{goal.at("tokens").get<double>()}), to_text(Count{samples}));
  if (goal.at("deadline_s").is_number())
    text += " within " + to_text(Seconds{goal.at("deadline_s").get<double>()});
  if (goal.at("budget_usd").is_number())
    text += " for at most " + to_text(Dollars{goal.at("budget_usd").get<double>()});
  return text;
}

/// Robust is only what has measured compute: of estimates the best that can be said is this.
std::string why_none_is_robust(const Json& report, const std::vector<AxisColumn>& axes) {
  const Json& points = report.at("points");
  const bool measured = std::any_of(points.begin(), points.end(), [](const Json& p) {
    return p.value("compute_measured", false);
  });
  if (measured)
    return "none. No cluster with measured compute reaches the goal at the slow end of its 90 % "
           "prediction interval.";
  const Json* most_robust = point_numbered(report, "robust_by_estimate");
  return fmt::format(
      "unknown, because compute is an estimate on every cluster here.{}",
      most_robust
          ? fmt::format(" By the estimates, {} reaches the goal even at the slow end of its "
                        "interval: {}{}.",
                        planned_words(*most_robust, axes),
                        milliseconds(number_or(*most_robust, "time_high_s", 0)),
                        (*most_robust).at("usd_high").is_null()
                            ? ""
                            : ", " + to_text(Dollars{number_or(*most_robust, "usd_high", 0)}))
          : "");
}

std::string plan_answer(const Json& report, const std::vector<AxisColumn>& axes, const View& view) {
  const Json& points = report.at("points");
  if (points.empty()) return "No cluster can train this.\n";
  const Json *cheapest = point_numbered(report, "cheapest"),
             *fastest = point_numbered(report, "fastest"),
             *robust = point_numbered(report, "most_robust");
  const auto line = [&](const std::string& word, const Json& p) {
    return wrapped(fmt::format("{:<12} {}: {}{}.", word, planned_words(p, axes), time_and_cost(p),
                               memory_doubt(p)),
                   view, 13);
  };
  if (!fastest) {
    const auto usd = [](const Json& p) {
      return p.at("usd").is_null() ? HUGE_VAL : p.at("usd").get<double>();
    };
    const auto nearest =
        std::min_element(points.begin(), points.end(),
                         [&](const Json& a, const Json& b) { return usd(a) < usd(b); });
    return "No cluster reaches the goal.\n" + line("Fastest:", points[0]) +
           (usd(*nearest) < HUGE_VAL ? line("Cheapest:", *nearest) : "");
  }
  const bool bounded = !report.at("goal").at("deadline_s").is_null() ||
                       !report.at("goal").at("budget_usd").is_null();
  std::vector<std::pair<std::string, const Json*>> roles;  // one cluster may have several
  for (const auto& [word, p] : {std::pair("Cheapest", cheapest),
                                {"fastest", fastest},
                                {"most robust", bounded ? robust : nullptr}}) {
    if (!p) continue;
    const auto at = std::find_if(roles.begin(), roles.end(),
                                 [p = p](const auto& role) { return role.second == p; });
    if (at != roles.end()) at->first += std::string(", ") + word;
    else roles.emplace_back(word, p);
  }
  std::string text;
  for (auto& [word, p] : roles) {
    word[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(word[0])));
    if (const auto last = word.rfind(", "); last != std::string::npos)
      word.replace(last, 2, " and ");
    text += line(word + ":", *p);
  }
  if (bounded && !robust)
    text += wrapped("Most robust: " + why_none_is_robust(report, axes), view, 13);
  return text;
}

bool hidden_row(const Json& report, const Json& p, const View& view) {
  return !view.wide && !p.value("front", false) && role_of(report, p) == "-";
}

Table plan_table(const Json& report, const std::vector<AxisColumn>& axes, const View& view,
                 Footnotes& notes) {
  const Json& points = report.at("points");
  const bool batches = std::any_of(points.begin(), points.end(), [&](const Json& p) {
    return batch_of(p) != batch_of(points[0]);
  });
  std::vector<double> times;
  for (const Json& p : points)
    if (const double time = number_or(p, "time_s", 0); time > 0) times.push_back(time);
  const auto [unit, worth] = unit_of(times.empty() ? 0 : quantile(times, 0.5));
  const auto in_unit = [worth = worth](double s) {
    const double v = s / worth;
    return fmt::format("{:.{}f}", v, v >= 100 ? 1 : v >= 10 ? 2 : 3);
  };
  // A row that misses the goal must not look like one that reaches it.
  const bool any_missed = std::any_of(points.begin(), points.end(), [&](const Json& p) {
    return !p.at("missed").empty() && !hidden_row(report, p, view);
  });
  const bool may_not_fit = std::any_of(points.begin(), points.end(), [&](const Json& p) {
    return p.value("memory_uncertain", false) && !hidden_row(report, p, view);
  });
  Table table;
  for (const AxisColumn& axis : axes)
    table.column(axis.heading, axis.heading == "GPUs" ? 8 : axis.rank);
  if (batches) table.column("samples/step", 7);
  for (const auto& [heading, rank] : {std::pair(std::string("step"), 9),
                                      {"samples/s", 10},
                                      {"$/h", 11},
                                      {fmt::format("time, {}", unit), 0},
                                      {kIntervalHeading, 3},
                                      {"USD", 0},
                                      {"memory", may_not_fit ? 4 : 13},
                                      {"misses", any_missed ? 0 : 12},
                                      {"role", 1}})
    table.column(heading, rank);
  for (const Json& p : points)
    if (!hidden_row(report, p, view)) notes.note(p.at("interval_widened_because"));
  for (const Json& p : points) {
    if (hidden_row(report, p, view)) continue;
    std::vector<std::string> row;
    for (const AxisColumn& axis : axes) row.push_back(axis.cell(p));
    if (batches) row.push_back(fmt::format("{:.0f}", batch_of(p)));
    row.push_back(milliseconds(number_or(p, "step_time_s", 0)));
    row.push_back(samples_words(number_or(p, "throughput_samples_per_s", 0)));
    row.push_back(p.at("usd_per_hour").is_null()
                      ? "-"
                      : fmt::format("{:.2f}", p.at("usd_per_hour").get<double>()));
    row.push_back(in_unit(number_or(p, "time_s", 0)));
    row.push_back(p.at("time_low_s").is_null()
                      ? "-"
                      : fmt::format("{} to {}{}", in_unit(p.at("time_low_s")),
                                    in_unit(p.at("time_high_s")),
                                    notes.mark(p.at("interval_widened_because"))));
    row.push_back(p.at("usd").is_null() ? "-" : usd_words(p.at("usd").get<double>()));
    row.push_back(memory_cell(p));
    const auto missed = p.at("missed").get<std::vector<std::string>>();
    row.push_back(missed.empty() ? "-" : fmt::format("{}", fmt::join(missed, ", ")));
    row.push_back(role_of(report, p));
    table.row(row);
  }
  return table;
}

std::string plan_notes(const Json& report, const Table& table, const Footnotes& notes,
                       const View& view) {
  const Json& points = report.at("points");
  std::string text;
  if (const std::size_t hidden = points.size() - table.size(); hidden > 0)
    text +=
        wrapped(fmt::format("{} more {} both slower and dearer than one above (--wide shows them).",
                            hidden, hidden == 1 ? "is" : "are"),
                view, 2);
  text += unpriced_line(points, "usd", view);
  std::set<std::int64_t> taken, asked;
  for (const Json& p : points)
    if (const auto batch = p.find("asked_global_batch"); batch != p.end() && !batch->is_null()) {
      asked.insert(batch->get<std::int64_t>());
      taken.insert(std::llround(batch_of(p)));
    }
  for (const Json& same : report.value("same_global_batches", Json::array())) {
    asked.insert(same.at("asked").get<std::int64_t>());
    taken.insert(same.at("taken").get<std::int64_t>());
  }
  if (!taken.empty())
    text += wrapped(fmt::format("A step of {} samples cannot be cut so on every cluster; where it "
                                "cannot, the nearest is taken: {}.",
                                fmt::join(asked, " or "), fmt::join(taken, ", ")),
                    view, 2);
  if (taken.size() != 1 && std::any_of(points.begin(), points.end(), [&](const Json& p) {
        return batch_of(p) != batch_of(points[0]);
      }))
    text += wrapped(
        "samples/step differs: these are not the same trainings, and may need more samples to "
        "learn as much; with "
        "workload.global_batch all take the same steps.",
        view, 2);
  for (const Json& why : report.at("died"))
    text += wrapped("no answer: " + why.get<std::string>(), view, 2);
  constexpr std::size_t kMostRuledOut = 5;  // of many, that read alike, in a table for people
  const Json& ruled_out = report.at("ruled_out");
  const std::size_t shown =
      view.wide || view.explain ? ruled_out.size() : std::min(kMostRuledOut, ruled_out.size());
  for (std::size_t i = 0; i < shown; ++i)
    text += wrapped("ruled out: " + ruled_out[i].get<std::string>(), view, 2);
  if (shown < ruled_out.size())
    text += fmt::format("ruled out: {} more (--explain says why).\n", ruled_out.size() - shown);
  text += notes.text(view, table);
  text += wrapped(
      "Time and cost are of the training steps alone: no start, evaluation, checkpoints, failures "
      "or queues.",
      view, 2);
  text += doubtful_rates_line(points, view) + estimates_line(points, view) +
          launches_line(points, view) + memory_line(points, view);
  text += unused_line(report, view) + hidden_line(table, view);
  return text + (view.explain ? "" : "--explain gives sources.\n");
}

std::string compute_sources(const Json& report, const View& view) {
  std::string text;
  std::vector<std::string> sources;
  for (const Json& p : report.at("points"))
    if (!hidden_row(report, p, view))
      add_once(sources, fmt::format("Compute of {} on {}: {}.", text_or(p, "model"),
                                    text_or(p, "instance"), text_or(p, "compute_source")));
  for (const std::string& source : sources) text += wrapped(source, view, 2);
  return text;
}

}  // namespace

Json plan_report(const Scenario& scenario, const Sweep<Prediction>& sweep,
                 const TrainingPlan& plan) {
  const GoalSpec& goal = *scenario.goal;
  Json j = sweep_head("plan", sweep.provenance, sweep.all);
  j["goal"] = {{"samples", plan.samples},
               {"tokens", goal.tokens ? Json(goal.tokens->value) : Json()},
               {"deadline_s", goal.deadline ? Json(goal.deadline->value) : Json()},
               {"budget_usd", goal.budget ? Json(goal.budget->value) : Json()}};
  const auto number = [&](const std::optional<std::size_t>& which) {
    return which ? Json(sweep.points[plan.all[*which].at].number) : Json();
  };
  j["cheapest"] = number(plan.cheapest);
  j["fastest"] = number(plan.fastest);
  j["most_robust"] = number(plan.most_robust);
  j["robust_by_estimate"] = number(plan.robust_by_estimate);
  for (const SameBatch& same : plan.same_batches)
    j["same_global_batches"].push_back({{"asked", same.asked}, {"taken", same.taken}});
  j["points"] = Json::array();
  for (const Planned& p : plan.all) j["points"].push_back(planned_report(sweep.points[p.at], p));
  Json all = Json::array();
  for (const Prediction& p : sweep.points) all.push_back(point_report(p, Cost::left_out));
  j["ruled_out"] = left_out_report(plan.ruled_out, all);
  j["died"] = left_out_report(plan.died, all);
  if (const auto best = plan.cheapest ? plan.cheapest : plan.fastest)
    put_cluster(j, sweep.points[plan.all[*best].at]);
  return j;
}

Document render_plan(const Json& report, const View& view) {
  const Json& points = report.at("points");
  const std::vector<AxisColumn> axes =
      points.empty() ? std::vector<AxisColumn>{} : axis_columns(points);
  Footnotes notes;
  const Table table = plan_table(report, axes, view, notes);
  Document document;
  document.title(text_or(report, "name")).lines(Role::setting, goal_words(report) + "\n").gap();
  document.lines(Role::answer, plan_answer(report, axes, view)).gap();
  if (!table.empty()) document.table(table).gap();
  document.lines(Role::notes, plan_notes(report, table, notes, view));
  if (view.explain)
    document.lines(Role::definitions, compute_sources(report, view) + wrapped(kPricesAre, view, 2));
  return document;
}

}  // namespace foreduce
