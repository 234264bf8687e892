// `foreduce predict`, and what sweeps share on the command line.
#include <cmath>
#include <cstdlib>

#include "scenarios/cli/sweep_command.hpp"

namespace foreduce {
namespace {

int shard_number(const std::string& word, const std::string& from) {
  double value = 0;
  std::string why;
  if (!parse_number(word, value, why) || value != std::floor(value) || value < 0 || value > 1e6)
    throw input_error(fmt::format("{}: '{}' is not a number of a shard", from, word),
                      "K/N, e.g. --shard 2/8");
  return static_cast<int>(value);
}

/// Why nothing is written into that file; empty: its ending says what it holds.
std::string why_no_trace(const std::string& file, TraceOf what) {
  if (file.ends_with(".json") || file.ends_with(".json.gz")) return "";
  if (file.ends_with(".svg.gz")) return "a drawing is not compressed: .svg";
  if (what == TraceOf::steps)
    return file.ends_with(".svg") ? ""
                                  : "the ending says what is written: .json or .json.gz, a trace "
                                    "for Perfetto, or .svg, a drawing of the step";
  return file.ends_with(".svg")
             ? "a drawing is of a training step (foreduce predict); a collective's trace is "
               "JSON, for Perfetto"
             : "the ending says what is written: .json or .json.gz, a trace for Perfetto";
}

std::optional<int> environment_number(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<int>(shard_number(value, name)) : std::nullopt;
}

}  // namespace

void SweepArguments::add_to(CLI::App& command, TraceOf what) {
  command.add_flag("--yes", yes_, "Begin a sweep of more than a million points, too.");
  auto* shard =
      command.add_option("--shard", shard_,
                         "K/N: answer only the K-th of N parts of the points. Default: from "
                         "SLURM_ARRAY_TASK_ID and _COUNT, or from "
                         "AWS_BATCH_JOB_ARRAY_INDEX and _SIZE.");
  command
      .add_option("--point", point_,
                  "Answer only the point of this number, from 0 in the order of the rows.")
      ->excludes(shard)
      ->check(CLI::Range(0, 100'000'000));
  const bool drawn = what == TraceOf::steps;
  command
      .add_option("--trace", trace_,
                  fmt::format("Write the one point that is answered as a trace into this file, for "
                              "Perfetto or chrome://tracing: .json, or compressed as .json.gz{}.",
                              drawn ? ", or as a drawing of the step in .svg" : ""))
      ->check([what](const std::string& file) { return why_no_trace(file, what); });
  command.add_flag(
      "--no-cost", no_cost_,
      "Leave out time and memory of the simulation, so that equal questions give equal bytes. CSV "
      "never has them.");
}

Shard SweepArguments::shard() const {
  Shard shard;
  if (point_) {
    shard.only = *point_;
  } else if (!shard_.empty()) {
    const auto slash = shard_.find('/');
    if (slash == std::string::npos)
      throw input_error(fmt::format("--shard: '{}' is not K/N", shard_), "e.g. --shard 2/8");
    shard = {shard_number(shard_.substr(0, slash), "--shard"),
             shard_number(shard_.substr(slash + 1), "--shard"), "--shard"};
  } else if (const auto task = environment_number("SLURM_ARRAY_TASK_ID"),
             tasks = environment_number("SLURM_ARRAY_TASK_COUNT");
             task && tasks) {
    shard = {*task - environment_number("SLURM_ARRAY_TASK_MIN").value_or(1) + 1, *tasks,
             "SLURM_ARRAY_TASK_ID"};
  } else if (const auto index = environment_number("AWS_BATCH_JOB_ARRAY_INDEX"),
             size = environment_number("AWS_BATCH_JOB_ARRAY_SIZE");
             index && size) {
    shard = {*index + 1, *size, "AWS_BATCH_JOB_ARRAY_INDEX"};
  }
  if (shard.count < 1 || shard.index < 1 || shard.index > shard.count)
    throw input_error(
        fmt::format("{}: there is no part {} of {}", shard.from, shard.index, shard.count),
        "parts count from 1 to N");
  if (!shard.from.empty() && shard.from != "--shard")
    std::cerr << fmt::format("part {} of {} (from {})\n", shard.index, shard.count, shard.from);
  return shard;
}

void add_predict(CLI::App& app, Action& action) {
  struct Arguments {
    std::string scenario;
    std::vector<std::string> set;
    OutputOptions output;
    SimulationOptions simulation;
    SweepArguments sweep;
  };
  auto* command = app.add_subcommand(
      "predict", "Predict step time, throughput, scaling efficiency and dollars of a scenario.");
  const auto a = std::make_shared<Arguments>();
  command
      ->add_option("scenario", a->scenario,
                   "YAML file, e.g. scenarios/bert-large-p3dn.yaml, or - for standard input.")
      ->required();
  add_set_option(*command, a->set);
  a->output.add_to(*command);
  a->output.add_explain_to(*command);
  a->output.add_html_to(*command);
  a->simulation.add_to(*command);
  a->sweep.add_to(*command, TraceOf::steps);
  add_examples(*command, {"foreduce predict scenarios/bert-large-p3dn.yaml",
                          "foreduce predict mine.yaml -o mine.json",
                          "foreduce predict mine.yaml --html mine.html",
                          "foreduce predict mine.yaml --point 3 --trace step.json.gz",
                          "foreduce predict mine.yaml --point 3 --trace step.svg",
                          "foreduce predict mine.yaml --set cluster.nodes=1..64:x2",
                          "foreduce predict mine.yaml --wide --explain"});
  command->callback([a, &action] {
    action = [a] {
      return answer_sweep<Prediction>(
          load_scenario(a->scenario, a->set), a->output, a->simulation, a->sweep,
          [](const Scenario& s, const SweepOptions& o, const OnPoint<Prediction>& p) {
            return predict(s, o, p);
          });
    };
  });
}

}  // namespace foreduce
