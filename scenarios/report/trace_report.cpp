#include "scenarios/report/trace_report.hpp"

#include <fmt/format.h>

#include "input/counted.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {

namespace {

/// A count without a decimal point; null for what no count is.
Json count_of(double value) {
  constexpr double kMost = 9e15;  // below it a double holds every whole number
  return value >= 0 && value < kMost ? Json(static_cast<std::int64_t>(value)) : Json();
}

}  // namespace

Json trace_report(const TrainingTrace& t) {
  Json j = report_head("trace");
  j["gpu"] = t.gpu.empty() ? Json() : Json(t.gpu);
  j["rank"] = t.rank >= 0 ? Json(t.rank) : Json();
  j["world_size"] = t.world > 0 ? Json(t.world) : Json();
  j["kernels"] = t.kernels;
  j["steps"] = Json::array();
  for (const Seconds s : t.steps) j["steps"].push_back(s.value);
  j["step_of_times"] = t.last_step;
  j["forward_s"] = t.forward.value;
  j["backward_s"] = t.backward.value;
  j["optimizer_s"] = t.optimizer.value;
  j["computing_s"] = t.computing.value;
  j["communicating_s"] = t.communicating.value;
  j["overlapped_s"] = t.both.value;
  j["overlap"] = t.communicating.value > 0 ? Json(t.both / t.communicating) : Json();
  j["collectives"] = Json::array();
  for (const KinetoCollective& c : t.collectives)
    j["collectives"].push_back({{"start_s", c.start.value},
                                {"duration_s", c.duration.value},
                                {"step", c.step >= 0 ? Json(c.step) : Json()},
                                {"collective", c.name},
                                {"type", c.type.empty() ? Json() : Json(c.type)},
                                {"elements", c.bytes ? count_of(c.elements) : Json()},
                                {"bytes", c.bytes ? count_of(c.bytes->value) : Json()},
                                {"ranks", c.group > 0 ? Json(c.group) : Json()},
                                {"of_gradients", c.of_gradients}});
  j["ready_s"] = Json::array();
  for (const Seconds s : t.ready) j["ready_s"].push_back(s.value);
  return j;
}

namespace {

/// All collectives, in base units.
std::string collectives_csv(const Json& report) {
  std::vector<std::string> keys;
  std::string out;
  for (const Json& c : report.at("collectives")) {
    std::vector<std::string> cells;
    for (const auto& [key, value] : c.items()) {
      if (out.empty()) keys.push_back(key);
      cells.push_back(value.is_null() ? "" : cell_of(value));
    }
    if (out.empty()) out = csv_line(keys);
    out += csv_line(cells);
  }
  return out;
}

/// The collectives of the step that the times are of.
Table collectives_table(const Json& report) {
  Table table;
  for (const auto& [heading, rank] : {std::pair("step", 0),
                                      {"start", 0},
                                      {"time", 0},
                                      {"collective", 0},
                                      {"size", 0},
                                      {"type", 0},
                                      {"ranks", 0},
                                      {"gradients", 0}})
    table.column(heading, rank);
  for (const Json& c : report.at("collectives")) {
    if (!c.at("step").is_null() && c.at("step") != report.at("step_of_times")) continue;
    table.row({cell_of(c.at("step")), milliseconds(number_or(c, "start_s", 0)),
               milliseconds(number_or(c, "duration_s", 0)), text_or(c, "collective"),
               c.at("bytes").is_null() ? "-" : size_words(number_or(c, "bytes", 0)),
               cell_of(c.at("type")), cell_of(c.at("ranks")),
               c.at("of_gradients") == true ? "yes" : "no"});
  }
  return table;
}

}  // namespace

Document render_trace(const Json& report, const View& view) {
  if (view.format == Format::csv) return collectives_csv(report);
  const Table table = collectives_table(report);
  const auto time = [&](const char* key) { return milliseconds(number_or(report, key, 0)); };
  std::string text = report.at("gpu").is_null() ? "A GPU" : text_or(report, "gpu");
  if (!report.at("rank").is_null()) text += ", rank " + cell_of(report.at("rank"));
  if (!report.at("world_size").is_null()) text += " of " + cell_of(report.at("world_size"));
  std::string lines = fmt::format("{}, {}, {} of the profiler.",
                                  counted(report.value("kernels", std::size_t{0}), "kernel"),
                                  counted(report.at("collectives").size(), "collective"),
                                  counted(report.at("steps").size(), "step"));
  if (number_or(report, "backward_s", 0) > 0)
    lines += fmt::format(
        " Step {}: forward {}, backward {}, optimizer {}, each from its first "
        "kernel to its last.",
        cell_of(report.at("step_of_times")), time("forward_s"), time("backward_s"),
        time("optimizer_s"));
  else lines += " There is no backward pass in it: no kernel was launched by the autograd engine.";
  Document document;
  document.title(text);
  lines = wrapped(lines, view);
  if (report.at("overlap").is_null())
    return document.lines(Role::answer, lines + wrapped("It has no communication.", view));
  lines += wrapped(
      fmt::format("Of {} of communication in the whole trace {} overlap with computation, {}.",
                  time("communicating_s"), time("overlapped_s"),
                  percent(number_or(report, "overlap", 0), 2)),
      view);
  document.lines(Role::answer, lines).gap().table(table);
  return document.lines(
      Role::definitions,
      wrapped("Overlap: as get_comm_comp_overlap of Holistic Trace Analysis defines "
              "it, over all steps of the trace; by default it leaves out the last one.",
              view));
}

}  // namespace foreduce
