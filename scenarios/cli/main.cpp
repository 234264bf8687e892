// The one program. Exit status: 0 fine, 1 the answer is no, 2 bad usage or bad input.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "models/workload.hpp"
#include "scenarios/cli/calibrate.hpp"
#include "scenarios/validation/diagnosis.hpp"
#include "scenarios/cli/shared_options.hpp"
#include "scenarios/sweep/plan.hpp"
#include "scenarios/report/svg.hpp"
#include "scenarios/cli/run.hpp"
#include "scenarios/report/report.hpp"
#include "scenarios/sweep/scenario.hpp"
#include "scenarios/cli/validate.hpp"
#include "topologies/export_simgrid.hpp"

namespace foreduce {
namespace {

/// Set by Ctrl-C or SIGTERM (a scheduler's time limit); the sweep then ends with what it has.
volatile std::sig_atomic_t interrupted = 0;

/// "2/8", or the place in a Slurm or AWS Batch array job.
Shard parse_shard(const std::string& text) {
  const auto number = [](const std::string& word, const std::string& from) {
    double value = 0;
    std::string why;
    if (!parse_number(word, value, why) || value != std::floor(value) || value < 0 || value > 1e6)
      throw input_error(fmt::format("{}: '{}' is not a number of a shard", from, word), "K/N, e.g. --shard 2/8");
    return static_cast<int>(value);
  };
  const auto environment = [&](const char* name) {
    const char* value = std::getenv(name);
    return value ? std::optional<int>(number(value, name)) : std::nullopt;
  };
  Shard shard;
  if (!text.empty()) {
    const auto slash = text.find('/');
    if (slash == std::string::npos) throw input_error(fmt::format("--shard: '{}' is not K/N", text), "e.g. --shard 2/8");
    shard = {number(text.substr(0, slash), "--shard"), number(text.substr(slash + 1), "--shard"), "--shard"};
  } else if (const auto task = environment("SLURM_ARRAY_TASK_ID"), tasks = environment("SLURM_ARRAY_TASK_COUNT"); task && tasks) {
    shard = {*task - environment("SLURM_ARRAY_TASK_MIN").value_or(1) + 1, *tasks, "SLURM_ARRAY_TASK_ID"};
  } else if (const auto index = environment("AWS_BATCH_JOB_ARRAY_INDEX"), size = environment("AWS_BATCH_JOB_ARRAY_SIZE");
             index && size) {
    shard = {*index + 1, *size, "AWS_BATCH_JOB_ARRAY_INDEX"};
  }
  if (shard.count < 1 || shard.index < 1 || shard.index > shard.count)
    throw input_error(fmt::format("{}: there is no part {} of {}", shard.from, shard.index, shard.count),
                      "parts count from 1 to N");
  if (!shard.from.empty() && shard.from != "--shard")
    std::cerr << fmt::format("part {} of {} (from {})\n", shard.index, shard.count, shard.from);
  return shard;
}

/// One line on stderr, when that is a terminal and the work takes over a second.
class Progress {
 public:
  std::function<void(std::size_t, std::size_t)> callback() {
    if (::isatty(STDERR_FILENO) == 0) return nullptr;
    return [this](std::size_t done, std::size_t total) {
      const double passed = std::chrono::duration<double>(Clock::now() - start_).count();
      if (passed < 1 || passed - last_ < 0.1) return;
      last_ = passed;
      const double left = passed / static_cast<double>(done) * static_cast<double>(total - done);
      const auto filled = static_cast<int>(30 * done / total);
      std::fputs(fmt::format("\r\033[K[{:#<{}}{:.<{}}] {}/{} simulations, {:.1f} a second, {:.0f} s left", "", filled, "",
                             30 - filled, done, total, static_cast<double>(done) / passed, left)
                     .c_str(),
                 stderr);
      shown_ = true;
    };
  }
  /// Makes room for other output.
  void clear() {
    if (shown_) std::fputs("\r\033[K", stderr);
    shown_ = false;
  }
  ~Progress() { clear(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  double last_ = 0;
  bool shown_ = false;
};

/// What `common` asks of (that part of) a sweep, which Ctrl-C ends early.
SweepOptions options_for(const Common& common, Progress& progress, const Shard& shard) {
  SweepOptions options;
  options.shard = shard;
  options.jobs = common.jobs;
  options.progress = progress.callback();
  options.stop = [] { return interrupted != 0; };
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  return options;
}

/// Runs a sweep and writes its report. `solve` is predict or compare.
template <class Point, class Solve>
int answer(Scenario& scenario, const Common& common, Solve solve) {
  Progress progress;
  const SweepOptions options = options_for(common, progress, parse_shard(common.shard));
  const ReportOptions report{common.colour(), !common.no_cost, options.shard};
  Output out(common.output, scenario.file);
  OnPoint<Point> line;
  bool headed = false;
  const auto head = [&] {
    if (!headed) out.put(csv_heading<Point>(report));
    headed = true;
  };
  if (common.wanted() == Format::csv)
    line = [&](const Point& p) {
      progress.clear();
      head();
      out.put(csv_line(p, report));
    };
  Sweep<Point> sweep = solve(scenario, options, line);
  progress.clear();
  std::vector<std::size_t> missing;
  const auto before = sweep.points.size();
  std::erase_if(sweep.points, [&](const Point& p) {
    if (p.error != kInterrupted) return false;
    missing.push_back(p.number);
    return true;
  });
  if (common.wanted() == Format::csv) head();
  if (common.wanted() == Format::json) out.put(json_report(scenario, sweep, report));
  if (common.wanted() == Format::table) out.put(text_report(scenario, sweep, report.colour));
  bool failed = false;
  for (const auto& p : sweep.points)
    if (!p.error.empty()) {
      failed = true;
      std::cerr << fmt::format("point {}, {} on {} x {}: {}\n", p.number, p.algorithm, p.nodes, p.instance, p.error);
    }
  if (!missing.empty()) {
    std::cerr << fmt::format("interrupted: {} of {} points are missing: {}\n", missing.size(), before, as_ranges(missing));
    return 130;
  }
  return failed ? 1 : 0;
}

/// Predicts all of a scenario's clusters and weighs them against its goal. Status 1: none reaches it, or a simulation died.
int answer_plan(const std::string& file, const Common& common, const std::string& plot, bool all) {
  Scenario scenario = load_scenario(file);
  const double samples = goal_samples(scenario);  // what is wrong with the goal is said before the work, not after
  Progress progress;
  SweepOptions options = options_for(common, progress, {});
  options.all_may_fail = true;
  Output out(common.output, file);
  const Sweep<Prediction> sweep = predict(scenario, options);
  progress.clear();
  if (interrupted) {
    std::cerr << "interrupted: no plan, since clusters are missing\n";
    return 130;
  }
  std::erase(scenario.unused, "goal");
  const TrainingPlan plan = make_plan(scenario, samples, sweep.points);
  out.put(plan_report(scenario, sweep, plan, common.wanted(), all, common.colour()));
  if (!plot.empty()) {
    const std::string svg = plan_svg(scenario, sweep, plan);
    if (svg.empty()) std::cerr << "no picture: nothing that can train this has a price\n";
    else write_svg(plot, scenario.name, svg);
  }
  for (const std::string& why : plan.died) std::cerr << fmt::format("no answer: {}\n", why);
  return plan.fastest && plan.died.empty() ? 0 : 1;
}

struct CompareArguments {
  std::string scenario, instance, sizes = "8B:1GiB:x8", dtype = "f32", inner = "ring", profile = "auto";
  std::vector<std::string> algorithms;
  int nodes = 0, segments = 0, channels = 0;

  Scenario made() const {
    if (instance.empty() || nodes == 0)
      throw input_error("compare needs a scenario file, or --instance and --nodes",
                        "e.g. foreduce compare --instance p4d.24xlarge --nodes 16");
    Scenario s;
    s.name = "All-reduce algorithms by message size";
    s.cluster.instance.values = {instance};
    s.cluster.nodes.values = {nodes};
    std::vector<std::string> known;
    for (const Algorithm* a : foreduce::algorithms()) known.emplace_back(a->name);
    std::vector<std::string> accepted = known;
    accepted.insert(accepted.end(), {"nccl", "best"});
    for (const std::string& a : algorithms)
      if (std::find(accepted.begin(), accepted.end(), a) == accepted.end())
        throw input_error(fmt::format("--algorithm: there is no algorithm called '{}'", a), suggest(a, accepted));
    s.allreduce.algorithm.values = algorithms.empty() ? known : algorithms;
    s.allreduce.inner.values = {inner};
    s.allreduce.profile.values = {profile};
    s.allreduce.segments.values = {segments};
    s.allreduce.channels = channels;
    s.messages.emplace();
    s.messages->dtype = dtype;
    s.messages->sizes.values = parse_sizes(sizes);
    s.hash = sha1(fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}", instance, nodes, sizes, dtype,
                              fmt::join(s.allreduce.algorithm.values, ","), inner, segments, channels, profile));
    return s;
  }
};

std::string list(const std::string& what, Format format) {
  Table table;
  if (what == "algorithms") {
    table.headings = {"algorithm", "idea", "cost", "wins", "source"};
    for (const Algorithm* a : algorithms())
      table.rows.push_back(
          {std::string(a->name), std::string(a->idea), std::string(a->cost), std::string(a->wins), std::string(a->source)});
  } else if (what == "instances") {
    table.headings = {"instance", "GPUs", "GPU", "network", "EFA", "GPUDirect", "USD/h", "price of"};
    const Catalogue catalogue;
    for (const std::string& name : catalogue.names()) {
      const Machine m = catalogue.load(name);
      table.rows.push_back({name, fmt::format("{}", m.gpus()), m.gpu ? m.gpu->model : "-",
                            fmt::format("{} x {:.0f} Gbps", m.nic.count, m.nic.bandwidth.value / 125e6),
                            m.nic.efa ? fmt::format("v{}", m.nic.efa) : "no", m.nic.gpudirect ? "yes" : "no",
                            m.price ? fmt::format("{:.4f}", m.price->on_demand.value) : "-", m.price ? m.price->date : "-"});
    }
  } else if (what == "profiles") {
    table.headings = {"profile", "library", "for", "compared from", "to", "nodes", "nine of ten within", "note"};
    const Profiles profiles;
    for (const std::string& name : profiles.names()) {
      const Profile p = profiles.load(name);
      const std::string instances = p.instances.empty() ? "any" : fmt::format("{}", fmt::join(p.instances, " "));
      if (p.accuracy.empty()) table.rows.push_back({name, p.library, instances, "-", "-", "-", "-", p.note});
      for (const Accuracy& a : p.accuracy)
        for (const Compared& c : a.compared)
          table.rows.push_back({name, p.library, c.instance, to_text(a.least), to_text(a.most),
                                fmt::format("{} to {}", c.nodes_least, c.nodes_most), fmt::format("a factor of {:.2f}", a.spread),
                                p.note});
    }
  } else if (what == "transports") {
    table = transports_table();
  } else {
    table.headings = {"workload", "title", "parameters", "tensors", "sample", "GFLOP/sample", "measured on"};
    const Workloads workloads;
    for (const std::string& name : workloads.names()) {
      const Workload w = workloads.load(name);
      std::string gpus;
      for (const Measured& m : w.measured)
        if (gpus.find(m.gpu) == std::string::npos) gpus += (gpus.empty() ? "" : ", ") + m.gpu;
      table.rows.push_back({name, w.title, fmt::format("{}", w.elements()), fmt::format("{}", w.tensors.size()),
                            w.variants[0].sample, fmt::format("{:.4g}", w.variants[0].train_gflop),
                            gpus.empty() ? "- (estimate)" : gpus});
    }
  }
  if (format == Format::csv) return table.csv();
  if (format == Format::table && what == "algorithms") {  // too wide for a table
    std::string text;
    for (const auto& r : table.rows)
      text += fmt::format("{}\n  {}\n  cost    {}\n  wins    {}\n  source  {}\n", r[0], r[1], r[2], r[3], r[4]);
    return text;
  }
  if (format == Format::table) return table.text(false);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& row : table.rows) {
    auto& one = all.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) one[table.headings[i]] = row[i];
  }
  return nlohmann::ordered_json{{"foreduce_version", FOREDUCE_VERSION}, {"kind", "list"}, {what, all}}.dump(2) + "\n";
}

/// CLI11 says of an unknown option what it would have excluded, or nothing.
void refuse_unknown_options(const CLI::App& app, int argc, char** argv) {
  const CLI::App* command = &app;
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string word(argv[i]), name = word.substr(0, word.find('='));
    if (i == 1 && !word.starts_with("-")) {
      const auto commands = app.get_subcommands(nullptr);
      const auto found = std::find_if(commands.begin(), commands.end(), [&](const CLI::App* c) { return c->get_name() == word; });
      std::vector<std::string> names;
      for (const CLI::App* c : commands) names.push_back(c->get_name());
      if (found == commands.end()) throw input_error(fmt::format("there is no command called '{}'", word), suggest(word, names));
      command = *found;
    }
    if (!name.starts_with("--") || command->get_option_no_throw(name)) continue;
    std::vector<std::string> names;
    for (const CLI::Option* o : command->get_options())
      for (const std::string& known : o->get_lnames()) names.push_back("--" + known);
    throw input_error(fmt::format("{}{} has no option {}", app.get_name(), command == &app ? "" : " " + command->get_name(), name),
                      suggest(name, names));
  }
}

/// CLI11 reads 010 as eight, 0x4 as four and takes "nan" for a number.
void refuse_odd_numbers(const CLI::App& command) {
  for (const CLI::Option* o : command.get_options()) {
    const std::string type = o->get_type_name();
    const bool whole = type.starts_with("INT") || type.starts_with("UINT");
    if (!whole && !type.starts_with("FLOAT")) continue;
    for (const std::string& word : o->results()) {
      double value = 0;
      std::string why;
      const bool leading = word.size() > 1 && word[0] == '0' && word.find_first_not_of("0123456789") == std::string::npos;
      if (!parse_number(word, value, why)) throw input_error(fmt::format("{}: {}", o->get_name(), why));
      if (whole && (leading || word.find_first_not_of("-0123456789") != std::string::npos))
        throw input_error(fmt::format("{}: '{}' is no whole number in decimal digits", o->get_name(), word));
    }
  }
}

int run(int argc, char** argv) {
  CLI::App app{"Predicts how data-parallel training scales: all-reduce algorithms, simulated on EC2 topologies"};
  app.name("foreduce");
  app.set_version_flag("--version", std::string("foreduce ") + FOREDUCE_VERSION);
  app.require_subcommand(1);

  Common common;
  std::string scenario_file;
  auto* predict_command = app.add_subcommand("predict", "step time, throughput, scaling efficiency and dollars of a scenario");
  predict_command->add_option("scenario", scenario_file, "YAML file, e.g. scenarios/bert-large-p3dn.yaml")->required();
  common.add_to(*predict_command, true);

  std::string plot;
  bool all_planned = false;
  auto* plan_command =
      app.add_subcommand("plan", "the cheapest and the fastest cluster that meet a scenario's goal: a deadline, a budget");
  plan_command->add_option("scenario", scenario_file, "YAML file with a goal, e.g. scenarios/plan-gpt2.yaml")->required();
  plan_command->add_flag("--all", all_planned, "also clusters that another beats in both time and cost");
  plan_command->add_option("--plot", plot, "a folder for a picture (SVG): cost over time");
  plan_command->add_option("--jobs", common.jobs, "simulations at a time; default: one a core")->check(CLI::Range(1, 4096));
  common.add_to(*plan_command, false);

  CompareArguments compared;
  auto* compare_command = app.add_subcommand("compare", "algorithms x message sizes, in nccl-tests' columns, with the bound");
  auto* compared_file =
      compare_command->add_option("scenario", compared.scenario, "YAML file with messages; or give --instance and --nodes");
  compare_command->add_option("--instance", compared.instance, "instance type or ./file.yaml");
  compare_command->add_option("--nodes", compared.nodes, "how many")->check(CLI::Range(1, 65536));
  compare_command
      ->add_option("--algorithm", compared.algorithms,
                   "which; default: all of ours; nccl: what NCCL would choose; best: the fastest of all these")
      ->delimiter(',');
  compare_command->add_option("--inner", compared.inner, "hierarchical: between nodes")->capture_default_str();
  compare_command->add_option("--sizes", compared.sizes, "low:high:xFACTOR, or a list with commas")->capture_default_str();
  compare_command->add_option("--dtype", compared.dtype, "element type")
      ->check(CLI::IsMember({"f32", "f64", "f16", "bf16", "i32"}))
      ->capture_default_str();
  compare_command->add_option("--segments", compared.segments, "pieces that travel separately; default: by size")
      ->check(CLI::Range(1, 4000));
  compare_command->add_option("--channels", compared.channels, "rings or trees side by side; default: one a rail")
      ->check(CLI::Range(1, 256));
  compare_command
      ->add_option("--profile", compared.profile,
                   "what messages cost: auto (fitted for the instance type, else ideal), ideal, another that ships, ./file.yaml")
      ->capture_default_str();
  for (const char* flag :
       {"--instance", "--nodes", "--algorithm", "--inner", "--sizes", "--dtype", "--segments", "--channels", "--profile"})
    compared_file->excludes(compare_command->get_option(flag));  // the file says it all
  common.add_to(*compare_command, true);

  std::string machine_name;
  bool dot = false, simgrid = false;
  int machines = 1;
  auto* topology_command = app.add_subcommand("topology", "what we believe a machine looks like");
  topology_command->add_option("instance", machine_name, "instance type or ./file.yaml")->required();
  common.add_to(*topology_command, false);
  topology_command->add_flag("--dot", dot, "for Graphviz: foreduce topology p4d.24xlarge --dot | dot -Tsvg -Kneato > p4d.svg")
      ->excludes("--format");
  topology_command->add_flag("--simgrid", simgrid, "as a platform file for SimGrid's own programs (smpirun -platform)")
      ->excludes("--format")
      ->excludes("--dot");
  topology_command->add_option("--nodes", machines, "with --dot or --simgrid: a cluster of so many on a fabric that never blocks")
      ->check(CLI::Range(1, 1024));

  std::string what;
  auto* list_command = app.add_subcommand("list", "what there is: algorithms, instances, workloads, profiles, transports");
  list_command->add_option("what", what, "algorithms, instances, workloads, profiles or transports")
      ->required()
      ->check(CLI::IsMember({"algorithms", "instances", "workloads", "profiles", "transports"}));
  common.add_to(*list_command, false);

  std::vector<std::string> parts;
  auto* merge_command = app.add_subcommand("merge", "joins the JSON reports of all shards of one sweep");
  merge_command->add_option("parts", parts, "part-*.json")->required();
  merge_command->add_option("-o,--output", common.output, "write to this file instead of standard output");

  Action action;
  add_run(app, action);
  add_calibrate(app, action);
  add_validate(app, action);
  add_check(app, action);

  auto* schema_command = app.add_subcommand("schema", "the JSON Schema of a scenario, for editors");
  schema_command->add_option("-o,--output", common.output, "write to this file instead of standard output");

  refuse_unknown_options(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }

  for (const CLI::App* command : app.get_subcommands()) refuse_odd_numbers(*command);

  if (action) return action();
  if (*predict_command) {
    Scenario scenario = load_scenario(scenario_file);
    return answer<Prediction>(scenario, common, predict);
  }
  if (*plan_command) return answer_plan(scenario_file, common, plot, all_planned);
  if (*compare_command) {
    Scenario scenario = compared.scenario.empty() ? compared.made() : load_scenario(compared.scenario);
    return answer<Comparison>(scenario, common, compare);
  }
  if (*topology_command) {
    const Machine machine = machine_named(machine_name);
    if (machines > 1 && !dot && !simgrid) throw input_error("--nodes draws or exports a cluster", "--dot or --simgrid");
    if (simgrid && machine.cpu_only())
      throw input_error(fmt::format("{} has no GPUs, which are the hosts of --simgrid", machine.name));
    const auto cluster = [&] {
      return Cluster(std::vector(static_cast<std::size_t>(machines), std::make_shared<const Machine>(machine)), {});
    };
    if (simgrid) common.write(to_simgrid(cluster()));
    else if (dot) common.write(machines > 1 ? cluster().dot() : NodeGraph(machine).dot());
    else common.write(describe(machine, common.wanted()));
  } else if (*list_command) {
    common.write(list(what, common.wanted()));
  } else if (*merge_command) {
    std::size_t failed = 0;
    common.write(merge_reports(parts, failed));
    if (failed > 0) std::cerr << fmt::format("{} points have no answer\n", failed);
    return failed > 0 ? 1 : 0;
  } else if (*schema_command) {
    common.write(scenario_schema().dump(2) + "\n");
  }
  return 0;
}

}  // namespace
}  // namespace foreduce

int main(int argc, char** argv) {
  try {
    return foreduce::run(argc, argv);
  } catch (const foreduce::InputError& e) {
    std::cerr << e.what() << "\n";
    return 2;
  } catch (const std::exception& e) {
    std::cerr << "foreduce: " << e.what() << "\n";
    return 2;
  }
}
