// What predict and compare share: a sweep, of which a shard may be asked, answered point by point.
#pragma once

#include <fmt/format.h>

#include <iostream>

#include "scenarios/cli/machine_warnings.hpp"
#include "scenarios/cli/shared_options.hpp"
#include "scenarios/report/gzip.hpp"
#include "scenarios/report/step_picture.hpp"
#include "scenarios/report/trace.hpp"

namespace foreduce {

/// What --trace records: training steps can be drawn, too.
enum class TraceOf : std::uint8_t { steps, collectives };

/// --shard, --point, --trace, --no-cost and --yes.
class SweepArguments {
 public:
  void add_to(CLI::App& command, TraceOf what);
  /// The shard that --shard names, or the place in a Slurm or AWS Batch array job. Throws
  /// InputError.
  Shard shard() const;
  Cost cost() const { return no_cost_ ? Cost::left_out : Cost::told; }
  Many many() const { return yes_ ? Many::accept : Many::refuse; }
  /// Of --trace; empty: none is asked for.
  const std::string& trace_file() const { return trace_; }

 private:
  std::string shard_, trace_;
  std::optional<std::size_t> point_;
  bool no_cost_ = false, yes_ = false;
};

/// Whether an answer can be had on that cluster.
inline bool runs(const Prediction& p) { return p.fits(); }
inline bool runs(const Comparison&) { return true; }

/// The recorded point as --trace asks for it: a drawing where the file ends in .svg, else a trace.
inline std::string recorded(const Prediction& p, const std::string& file) {
  return file.ends_with(".svg") ? step_svg(p) : trace_of(p);
}
inline std::string recorded(const Comparison& p, const std::string&) { return trace_of(p); }

/// Runs a sweep and writes its report. `solve` is predict or compare. Status 1: a point has no
/// answer, or nothing fits into the GPUs' memory; 130: interrupted.
template <class Point, class Solve>
int answer_sweep(const Scenario& scenario, const OutputOptions& output,
                 const SimulationOptions& simulation, const SweepArguments& arguments,
                 Solve solve) {
  warn_of_machines(scenario);
  SweepOptions options;
  options.batch = simulation.batch();
  options.shard = arguments.shard();
  options.many = arguments.many();
  const bool lines = output.format() == Format::csv;
  Answer out(output, scenario.file, lines ? Writing::lines : Writing::whole);
  Output trace(arguments.trace_file(), scenario.file);
  if (!arguments.trace_file().empty()) options.recording = Recording::on;
  bool headed = false;
  const auto heading = [&] {
    if (lines && !headed) out.put_lines(points_csv_heading<Point>());
    headed = true;
  };
  Sweep<Point> sweep = solve(scenario, options, [&](const Point& p) {
    if (!lines) return;
    clear_progress();
    heading();
    out.put_lines(point_csv(p));
  });
  clear_progress();
  const std::size_t asked = sweep.points.size();
  std::vector<std::size_t> missing, failed;
  std::erase_if(sweep.points, [&](const Point& p) {
    if (p.error == kInterrupted) missing.push_back(p.number);
    else if (!p.error.empty()) failed.push_back(p.number);
    return p.error == kInterrupted;
  });
  const Json report = sweep_report(sweep, options.shard, arguments.cost());
  if (lines) {
    heading();
    out.put_page(report);
  } else {
    out.put(report);
  }
  out.finish();
  if (options.recording == Recording::on && failed.empty() && !sweep.points.empty()) {
    const std::string events = recorded(sweep.points.front(), arguments.trace_file());
    trace.put(arguments.trace_file().ends_with(".gz") ? gzipped(events) : events);
    trace.finish();
  }
  if (!failed.empty())
    std::cerr << fmt::format("{} of {} points {} no answer: {}\n", failed.size(), asked,
                             failed.size() == 1 ? "has" : "have", as_ranges(failed));
  if (!missing.empty()) {
    std::cerr << fmt::format("interrupted: {} of {} points are missing: {}\n", missing.size(),
                             asked, as_ranges(missing));
    return kInterruptedStatus;
  }
  const bool none_runs =
      !sweep.points.empty() && std::none_of(sweep.points.begin(), sweep.points.end(),
                                            [](const Point& p) { return runs(p); });
  return failed.empty() && !none_runs ? 0 : 1;
}

}  // namespace foreduce
