// `foreduce run`: the algorithms on real ranks, in nccl-tests' columns.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <set>

#include "algorithms/extensions/schedule.hpp"
#include "input/machine_memory.hpp"
#include "models/statistics.hpp"
#include "real/baseline.hpp"
#include "real/measure.hpp"
#include "scenarios/cli/launch_options.hpp"
#include "scenarios/cli/mpi_run.hpp"
#include "scenarios/cli/replays.hpp"
#include "scenarios/sweep/compare.hpp"
#include "scenarios/sweep/step_collectives.hpp"

namespace foreduce {
namespace {

struct RunArguments {
  LaunchOptions launch;
  std::string collective = std::string(name_of(Collective::all_reduce));
  std::vector<std::string> algorithms;
  std::string sizes = "8B:64MiB:x4", dtype = "f32", inner = kUsualInner;
  int servers = -1, warmup = 5, iterations = 20, segments = 0;
  bool check = false;
  std::set<std::string> given;  ///< options that the user named
  ReplayOptions replay;
  OutputOptions output;

  Collective kind() const { return *collective_named(collective); }
  /// Of schedules that are files: what is in each, for names alone may stand for other ones on
  /// another host.
  std::vector<std::string> schedules() const {
    std::vector<std::string> contents;
    for (const std::string& name : algorithms)
      if (const Algorithm* a = find_algorithm(name, kind())) contents.emplace_back(a->content);
    return contents;
  }
  /// Everything that the processes must agree on.
  nlohmann::json settings() const {
    return {{"collective", collective},
            {"algorithms", algorithms},
            {"schedules", schedules()},
            {"sizes", sizes},
            {"dtype", dtype},
            {"inner", inner},
            {"segments", segments},
            {"warmup", warmup},
            {"iterations", iterations},
            {"check", check},
            {"replay", replay.settings()}};
  }
};

bool is_baseline(std::string_view name) {
  return std::find(std::begin(kBaselines), std::end(kBaselines), name) != std::end(kBaselines);
}

const char* nccl_name(Type type) {
  switch (type) {
    case Type::f32: return "float";
    case Type::f64: return "double";
    case Type::f16: return "half";
    case Type::bf16: return "bfloat16";
    case Type::i32: break;
  }
  return "int32";
}

Json timing_json(const Timing& timing, double bytes, double bus_factor) {
  const double median = quantile(timing.samples, 0.5), algbw = bytes / median / 1e9;
  Json j{{"median_s", median},
         {"p95_s", quantile(timing.samples, 0.95)},
         {"min_s", quantile(timing.samples, 0)},
         {"algbw_GBps", algbw},
         {"busbw_GBps", algbw * bus_factor}};
  j["wrong"] = timing.wrong < 0 ? Json() : Json(timing.wrong);
  j["samples_s"] = timing.samples;
  return j;
}

/// The measurement of one process; the first one's report is the answer.
class Measurement {
 public:
  Measurement(const RunArguments& arguments, const ProcessPlace& place)
      : a_(arguments),
        type_(type_named(arguments.dtype)),
        session_(place, arguments.launch.session(arguments.settings())) {}

  /// Rows of sizes, or of a replayed training step. Null in all processes but the first.
  Json report() {
    for (const std::string& name : a_.algorithms)
      if (is_baseline(name)) baselines_[name] = load_baseline(name);
    Json report{{"foreduce_version", FOREDUCE_VERSION},
                {"kind", "run"},
                {"collective", a_.collective},
                {"environment", environment_json(a_.launch, session_)},
                {"layout", layout_json(a_.launch, session_)},
                {"warmup", a_.warmup},
                {"iterations", a_.iterations}};
    for (const auto& [name, baseline] : baselines_)
      report["environment"]["baselines"][name] = baseline->version();
    report["rows"] = a_.replay.workload.empty() ? sizes() : replays();
    session_.leave();
    return session_.first() ? report : Json();
  }

 private:
  Plan planned(const Algorithm& algorithm, std::size_t bytes) const {
    const Layout& layout = algorithm.uses_servers ? session_.everyone() : session_.workers();
    const Plan plan =
        with_defaults(algorithm, {a_.segments, a_.launch.channels, a_.inner}, layout, bytes);
    if (const auto why = unsupported_reason(algorithm, layout, plan))
      throw input_error(fmt::format("{}: {}", algorithm.name, *why));
    return plan;
  }
  MeasureOptions options(bool check) const {
    return {a_.warmup, a_.iterations, check, a_.launch.timeout, progress_of("iterations")};
  }

  int blocks() const { return counted_blocks(a_.kind(), session_.workers().size()); }
  /// How many elements each rank's buffer has.
  std::size_t elements(Bytes size) const {
    return counted_elements(static_cast<std::size_t>(size.value) / size_of(type_), blocks(),
                            size_of(type_));
  }

  std::vector<Trial> trials() const {
    std::vector<Trial> trials;
    for (const std::string& name : a_.algorithms)
      for (const Bytes size : parse_sizes(a_.sizes)) {
        Trial& trial = trials.emplace_back();
        trial.name = name;
        trial.count = elements(size);
        trial.type = type_;
        trial.of_baseline = a_.kind();
        if (is_baseline(name)) {
          trial.baseline = baselines_.at(name).get();
        } else {
          trial.algorithm = find_algorithm(name, a_.kind());
          trial.plan = planned(*trial.algorithm, trial.count * size_of(type_));
        }
      }
    return trials;
  }

  Json sizes() {
    Json rows = Json::array();
    const double factor = bus_factor(a_.kind(), session_.workers().size());
    for (const TrialResult& m : measure(session_, trials(), options(a_.check))) {
      const double bytes = static_cast<double>(m.trial.count * size_of(type_));
      Json row{{"algorithm", m.trial.name}};
      if (m.trial.algorithm) {
        row["segments"] = m.trial.plan.segments;
        if (m.trial.algorithm->takes_inner) row["inner"] = m.trial.plan.inner;
      }
      row["bytes"] = static_cast<std::uint64_t>(bytes);
      row["count"] = m.trial.count / static_cast<std::size_t>(blocks());
      row["dtype"] = nccl_name(type_);
      row["out_of_place"] = timing_json(m.out_of_place, bytes, factor);
      row["in_place"] = timing_json(m.in_place, bytes, factor);
      rows.push_back(row);
    }
    return rows;
  }

  Json replays() {
    return replayed_rows(
        session_, a_.launch, a_.replay,
        {a_.algorithms, {a_.segments, a_.launch.channels, a_.inner}, type_, nccl_name(type_)},
        options(false));
  }

  const RunArguments& a_;
  Type type_;
  std::map<std::string, std::unique_ptr<Baseline>> baselines_;
  Session session_;
};

/// The error for a name that is no algorithm, or none for this collective.
InputError no_algorithm(const std::string& name, Collective collective) {
  std::vector<std::string> able;
  for (const Algorithm* algorithm : algorithms(collective)) able.emplace_back(algorithm->name);
  able.insert(able.end(), std::begin(kBaselines), std::end(kBaselines));
  if (collectives_of(name).empty())
    return input_error(fmt::format("--algorithm: there is no algorithm called '{}'", name),
                       suggest(name, able));
  return input_error(fmt::format("--algorithm: '{}' has no {}", name, title_of(collective)),
                     fmt::format("these have: {}", fmt::join(able, ", ")));
}

/// Whether an algorithm among those asked for uses reduction servers. Throws InputError for names
/// and combinations that cannot be.
bool check_algorithms(const RunArguments& a) {
  bool uses_servers = false;
  for (const std::string& name : a.algorithms) {
    const Algorithm* algorithm = find_algorithm(name, a.kind());
    if (!algorithm && !is_baseline(name)) throw no_algorithm(name, a.kind());
    uses_servers = uses_servers || (algorithm && algorithm->uses_servers);
    for (const Stream kind : a.replay.kinds())
      if (!a.replay.workload.empty() && !find_algorithm(name, collective_of(kind)) && algorithm)
        throw no_algorithm(name, collective_of(kind));
    if (algorithm) continue;
    if (!a.replay.workload.empty())
      throw input_error(fmt::format("--workload replays our algorithms, not {}", name));
    if (name == "mpi" && a.launch.cuda())
      throw input_error(
          "--algorithm mpi works on host memory, and --transport cuda on the devices'",
          "--transport threads");
    if (name == "mpi" && reduces(a.kind()) && size_of(type_named(a.dtype)) == 2)
      throw input_error(fmt::format("--algorithm mpi: MPI does not reduce {}", a.dtype),
                        "--dtype f32");
    if (name == "nccl" && !a.launch.cuda())
      throw input_error("--algorithm nccl works on GPUs' memory", "--transport cuda");
  }
  return uses_servers;
}

/// Each rank has what it sends and what it gets; that must fit into this machine.
void check_run_memory(const RunArguments& a) {
  if (!a.replay.workload.empty()) return;
  const auto element = static_cast<double>(size_of(type_named(a.dtype)));
  const std::vector<Bytes> sizes = parse_sizes(a.sizes);
  for (const Bytes size : sizes)
    if (size.value < element)
      throw input_error(
          fmt::format("--sizes {}: {} holds no element of {}", a.sizes, to_text(size), a.dtype));
  const double wanted = 2 * std::max_element(sizes.begin(), sizes.end())->value *
                        std::max(1, std::max(a.launch.per_process, a.launch.ranks));
  const double there = machine_memory().value;
  if (!a.launch.cuda() && wanted > there)
    throw input_error(fmt::format("--sizes {}: these ranks need {} of memory, and {} are there",
                                  a.sizes, to_text(Bytes{wanted}), to_text(Bytes{there})));
}

/// Options that would do nothing beside the others are errors.
void check_effects(const RunArguments& a, bool uses_servers) {
  const auto refuse = [&](const char* option, const std::string& why, const std::string& hint) {
    if (a.given.contains(option)) throw input_error(fmt::format("{}: {}", option, why), hint);
  };
  if (a.replay.workload.empty()) {
    for (const char* option :
         {"--gpu", "--batch", "--precision", "--sample", "--bucket", "--compute-scale"})
      refuse(option, "this says how a training step is replayed, and there is no --workload",
             "--workload resnet50");
  } else {
    for (const char* option : {"--sizes", "--check"})
      refuse(option, "this is of collectives by size, and --workload replays those of a step",
             "leave it away");
  }
  const auto takes_inner = [&](const std::string& name) {
    const Algorithm* algorithm = find_algorithm(name, a.kind());
    return algorithm && algorithm->takes_inner;
  };
  if (std::none_of(a.algorithms.begin(), a.algorithms.end(), takes_inner))
    refuse("--inner", "none of these algorithms has another one between nodes",
           "--algorithm hierarchical");
  if (!uses_servers && a.servers > 0)
    refuse("--servers", "none of these algorithms has reduction servers",
           "--algorithm reduction-server");
}

/// The exit status of a report: 1 where --check found wrong results.
int status_of(const Json& report) {
  if (!report.contains("rows")) return 0;
  for (const Json& row : report.at("rows"))
    for (const char* half : {"out_of_place", "in_place"})
      if (const Json wrong = row.value(half, Json::object()).value("wrong", Json());
          wrong.is_number() && wrong > 0)
        return 1;
  return 0;
}

/// Ranks compute in real time: of a large model that is minutes.
void tell_long_replay(const RunArguments& a) {
  constexpr Seconds kLong{60};
  const Seconds step = a.replay.computing();
  const double steps = 1.0 * (a.warmup + a.iterations) * static_cast<double>(a.algorithms.size());
  if (step * steps > kLong)
    std::cerr << fmt::format("computing takes {}: {} steps of {} (--iterations, --compute-scale)\n",
                             to_text(step * steps), steps, to_text(step));
}

int run_asked(RunArguments a) {
  if (!a.replay.workload.empty() && a.kind() != Collective::all_reduce)
    throw input_error(
        fmt::format("--workload replays all collectives of a training step, and {} alone is none",
                    a.collective),
        "leave --collective away");
  a.replay.check(a.launch);
  a.launch.streams = static_cast<int>(a.replay.queues().size());
  if (a.algorithms.empty()) a.algorithms = {std::string(usual_algorithm(a.kind()).name)};
  load_schedules(a.algorithms, "");
  const bool uses_servers = check_algorithms(a);
  check_effects(a, uses_servers);
  check_run_memory(a);
  if (!detect_launcher().has_value()) tell_long_replay(a);
  a.launch.servers = a.servers >= 0 ? a.servers : uses_servers ? 1 : 0;
  Output out(a.output.file());
  const auto mpi = std::find(a.algorithms.begin(), a.algorithms.end(), "mpi");
  const bool under_launcher = a.launch.ranks == 0 && detect_launcher().has_value();
  std::optional<Json> baseline;
  if (mpi != a.algorithms.end() && !under_launcher) {
    if (!has_baseline("mpi"))
      throw input_error("--algorithm mpi: this build has no MPI",
                        "install libopenmpi-dev and build again, or leave mpi away");
    // Our rows from this run, the baseline's from another under mpirun: one table.
    a.launch.processes();
    baseline = run_under_mpirun(
        {a.launch, a.collective, a.sizes, a.dtype, a.warmup, a.iterations, a.check});
    a.algorithms.erase(mpi);
  }
  if (a.algorithms.empty()) {
    out.put(render(*baseline, a.output.view()));
    out.finish();
    return status_of(*baseline);
  }
  return a.launch.run_processes([&](const ProcessPlace& here) {
    Json report = Measurement(a, here).report();
    clear_progress();
    if (report.is_null()) return 0;
    if (baseline) {
      report["environment"]["baselines"] = (*baseline)["environment"]["baselines"];
      for (const auto& row : (*baseline)["rows"]) report["rows"].push_back(row);
    }
    out.put(render(report, a.output.view()));
    out.finish();
    return status_of(report);
  });
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "run", "Run the algorithms on real ranks: threads here, GPUs, or processes over libfabric.");
  const auto a = std::make_shared<RunArguments>();
  add_collective_option(*command, a->collective);
  command
      ->add_option("--algorithm", a->algorithms,
                   "Which algorithms, with commas. Baselines: mpi (MPI's collectives) and, on "
                   "GPUs, nccl. Default: ring; of alltoall pairwise.")
      ->delimiter(',');
  a->launch.add_to(*command, Memory::host_or_devices);
  command
      ->add_option("--servers", a->servers,
                   "Reduction servers per process. Default: 1 if an algorithm uses them.")
      ->check(CLI::Range(0, 64));
  command
      ->add_option("--sizes", a->sizes,
                   "Sizes: low:high:xFACTOR, or a list with commas. Equal blocks of ranks are "
                   "rounded down to multiples of 16 bytes, as nccl-tests does; the count is of a "
                   "block.")
      ->capture_default_str();
  command->add_option("--dtype", a->dtype, "Element type.")
      ->transform(element_type())
      ->capture_default_str();
  command->add_option("--warmup", a->warmup, "Iterations that are not timed.")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  command->add_option("--iterations", a->iterations, "Timed iterations.")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_flag("--check", a->check,
                    "Compare every element of the results with what it must be.");
  command->add_option("--inner", a->inner, "Algorithm between nodes of hierarchical.")
      ->capture_default_str();
  command
      ->add_option("--segments", a->segments,
                   "Cut the data into so many segments. Default: chosen by size.")
      ->check(CLI::Range(1, 4000));
  command->add_option("--channels", a->launch.channels, "Use so many rings or trees side by side.")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  a->replay.add_to(*command);
  a->output.add_to(*command, Forms::with_nccl_tests);
  add_examples(*command, {"foreduce run --algorithm ring,double-tree --ranks 4",
                          "foreduce run --algorithm ring,mpi --transport ofi --ranks 4 --check",
                          "foreduce run --collective all_gather --algorithm ring,bruck --ranks 4",
                          "torchrun --no-python --nnodes 2 --nproc-per-node 8 foreduce run "
                          "--transport ofi --provider efa"});
  command->callback([a, command, &action] {
    for (const CLI::Option* option : command->get_options())
      if (option->count() > 0) a->given.insert(option->get_name());
    action = [a] { return run_asked(*a); };
  });
}

}  // namespace foreduce
