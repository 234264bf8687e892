#include "scenarios/cli/run.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>

#include "models/statistics.hpp"
#include "models/step.hpp"
#include "real/cuda_device.hpp"
#include "real/measure.hpp"
#include "scenarios/cli/launch_options.hpp"

namespace foreduce {
namespace {

using nlohmann::ordered_json;

struct RunArguments {
  LaunchOptions launch;
  std::vector<std::string> algorithms = {"ring"};
  std::string sizes = "8B:64MiB:x4", dtype = "f32", inner = "ring", workload, gpu = "V100", precision = "fp32", sample,
              bucket = "25 MiB";
  int servers = -1, warmup = 5, iterations = 20, segments = 0, batch = 8;
  double compute_scale = 1;
  bool check = false;
};

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

ordered_json to_json(const Timing& timing, double bytes, int workers) {
  const double median = quantile(timing.samples, 0.5), algbw = bytes / median / 1e9;
  ordered_json j{{"median_s", median},
                 {"p95_s", quantile(timing.samples, 0.95)},
                 {"min_s", quantile(timing.samples, 0)},
                 {"algbw_GBps", algbw},
                 {"busbw_GBps", algbw * 2 * (workers - 1) / workers}};
  j["wrong"] = timing.wrong < 0 ? ordered_json() : ordered_json(timing.wrong);
  j["samples_s"] = timing.samples;
  return j;
}

/// nccl-tests' own lines, so that whatever reads those reads these.
std::string table(const ordered_json& report) {
  const int ranks = report["layout"]["ranks"];
  std::string text = fmt::format("# foreduce {} run: {} ranks on {} nodes, transport {}; times are medians of {} iterations\n",
                                 FOREDUCE_VERSION, ranks, report["layout"]["nodes"].get<int>(),
                                 report["environment"]["transport"].get<std::string>(), report["iterations"].get<int>());
  text += fmt::format("# busbw = algbw x {:.4g}; out of place includes the copy that our algorithms, which work in place, need\n",
                      2.0 * (ranks - 1) / ranks);
  std::string last;
  for (const auto& row : report["rows"]) {
    const std::string algorithm = row["algorithm"];
    if (algorithm != last) {
      text += fmt::format("#\n# {}\n#\n#{:>12} {:>13} {:>9} {:>7} {:>7}  {:>7} {:>7} {:>7} {:>6}  {:>7} {:>7} {:>7} {:>6}\n",
                          algorithm, "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw",
                          "busbw", "#wrong");
      text += fmt::format("#{:>12} {:>13} {:>9} {:>7} {:>7}  {:>7} {:>7} {:>7} {:>6}  {:>7} {:>7} {:>7} {:>6}\n", "(B)",
                          "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
      last = algorithm;
    }
    text += fmt::format(" {:>12} {:>13} {:>9} {:>7} {:>7}", row["bytes"].get<std::uint64_t>(), row["count"].get<std::uint64_t>(),
                        row["dtype"].get<std::string>(), "sum", -1);
    for (const char* place : {"out_of_place", "in_place"}) {
      const auto& t = row[place];
      const double us = t["median_s"].get<double>() * 1e6;
      text += fmt::format("  {:>7} {:>7.2f} {:>7.2f} {:>6}",
                          us < 1000  ? fmt::format("{:.2f}", us)
                          : us < 1e6 ? fmt::format("{:.1f}", us)
                                     : fmt::format("{:.0f}", us),
                          t["algbw_GBps"].get<double>(), t["busbw_GBps"].get<double>(),
                          t["wrong"].is_null() ? "N/A" : fmt::format("{:.0f}", t["wrong"].get<double>()));
    }
    text += "\n";
  }
  return text;
}

Table flat(const ordered_json& report) {
  Table t;
  t.headings = {"algorithm",
                "bytes",
                "count",
                "dtype",
                "out_of_place_median_s",
                "out_of_place_busbw_GBps",
                "in_place_median_s",
                "in_place_p95_s",
                "in_place_busbw_GBps",
                "wrong"};
  for (const auto& row : report["rows"]) {
    const auto text = [](const ordered_json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); };
    t.rows.push_back({text(row["algorithm"]), text(row["bytes"]), text(row["count"]), text(row["dtype"]),
                      text(row["out_of_place"]["median_s"]), text(row["out_of_place"]["busbw_GBps"]),
                      text(row["in_place"]["median_s"]), text(row["in_place"]["p95_s"]), text(row["in_place"]["busbw_GBps"]),
                      text(row["in_place"]["wrong"])});
  }
  return t;
}

/// Everything that the processes must agree on.
nlohmann::json settings_of(const RunArguments& a) {
  return {{"algorithms", a.algorithms}, {"sizes", a.sizes},   {"dtype", a.dtype},           {"inner", a.inner},
          {"segments", a.segments},     {"warmup", a.warmup}, {"iterations", a.iterations}, {"check", a.check},
          {"workload", a.workload},     {"bucket", a.bucket}};
}

bool is_baseline(std::string_view name) {
  return std::find(std::begin(kBaselines), std::end(kBaselines), name) != std::end(kBaselines);
}

/// The measurement of one process. The first one's report is the answer; empty elsewhere.
ordered_json measured(const RunArguments& a, const ProcessPlace& place) {
  std::map<std::string, std::unique_ptr<Baseline>> baselines;
  for (const std::string& name : a.algorithms)
    if (is_baseline(name)) baselines[name] = load_baseline(name);
  Session session(place, a.launch.session(settings_of(a)));
  const Type type = parse_type(a.dtype);
  ordered_json report{
      {"foreduce_version", FOREDUCE_VERSION},  {"kind", "run"},      {"environment", environment_json(a.launch, session)},
      {"layout", layout_json(a.launch, session)}, {"warmup", a.warmup}, {"iterations", a.iterations}};
  for (const auto& [name, baseline] : baselines) report["environment"]["baselines"][name] = baseline->version();
  const auto planned = [&](const Algorithm& algorithm, std::size_t bytes) {
    const Layout& layout = algorithm.uses_servers ? session.everyone() : session.workers();
    const Plan wanted{a.segments, a.launch.channels, a.inner};
    if (const auto why = unsupported_reason(algorithm, layout, with_defaults(algorithm, wanted, layout, bytes)))
      throw input_error(fmt::format("{}: {}", algorithm.name, *why));
    return with_defaults(algorithm, wanted, layout, bytes);
  };
  if (a.workload.empty()) {
    std::vector<Trial> trials;
    for (const std::string& name : a.algorithms)
      for (const Bytes size : parse_sizes(a.sizes)) {
        Trial trial;
        trial.name = name;
        trial.count = static_cast<std::size_t>(size.value) / size_of(type);
        trial.type = type;
        if (is_baseline(name)) {
          trial.baseline = baselines.at(name).get();
        } else {
          trial.algorithm = find_algorithm(name);
          trial.plan = planned(*trial.algorithm, trial.count * size_of(type));
        }
        trials.push_back(trial);
      }
    auto& rows = report["rows"] = ordered_json::array();
    for (const TrialResult& m : measure(session, trials, {a.warmup, a.iterations, a.check, a.launch.timeout})) {
      const double bytes = static_cast<double>(m.trial.count * size_of(type));
      const int n = session.workers().size();
      ordered_json row{{"algorithm", m.trial.name}};
      if (m.trial.algorithm) {
        row["segments"] = m.trial.plan.segments;
        if (m.trial.algorithm->takes_inner) row["inner"] = m.trial.plan.inner;
      }
      row["bytes"] = static_cast<std::uint64_t>(bytes);
      row["count"] = m.trial.count;
      row["dtype"] = nccl_name(type);
      row["out_of_place"] = to_json(m.out_of_place, bytes, n);
      row["in_place"] = to_json(m.in_place, bytes, n);
      rows.push_back(row);
    }
  } else {
    const Workload workload = names_file(a.workload) ? Workloads::load_file(a.workload) : Workloads().load(a.workload);
    Gpu gpu;
    gpu.model = a.gpu;
    const Variant* variant = workload.variant(a.sample);
    if (!variant)
      throw input_error(fmt::format("--sample: {} has no sample '{}'", workload.name, a.sample), workload.suggest_sample(a.sample));
    std::vector<std::string> gpus;
    for (const Measured& m : workload.measured)
      if (std::find(gpus.begin(), gpus.end(), m.gpu) == gpus.end()) gpus.push_back(m.gpu);
    if (std::find(gpus.begin(), gpus.end(), a.gpu) == gpus.end())
      throw input_error(fmt::format("--gpu: nobody measured {} on '{}'", workload.name, a.gpu), suggest(a.gpu, gpus));
    const ComputeTime compute = compute_time(workload, gpu, a.precision, variant->sample, a.batch);
    const auto& constants = training_constants();
    const double backward = compute.forward_backward.value * constants.backward_share * a.compute_scale;
    Bytes cap{0};
    std::string why;
    if (!parse_quantity(a.bucket, UnitsOf<Bytes>::table, "size", cap.value, why)) throw input_error("--bucket: " + why);
    const auto buckets = ddp_buckets(workload.tensors, size_of(type), std::min(constants.first_bucket, cap), cap);
    auto& rows = report["rows"] = ordered_json::array();
    for (const std::string& name : a.algorithms) {
      Replay step;
      step.algorithm = find_algorithm(name);
      step.compute = backward;
      step.type = type;
      for (const Bucket& bucket : buckets) {
        step.counts.push_back(bucket.elements);
        step.ready.push_back(bucket.ready * backward);
        step.plans.push_back(planned(*step.algorithm, bucket.elements * size_of(type)));
      }
      const auto samples = replay(session, step, {a.warmup, a.iterations, false, a.launch.timeout});
      if (samples.empty()) continue;
      rows.push_back({{"algorithm", name},
                      {"workload", workload.name},
                      {"buckets", buckets.size()},
                      {"dtype", nccl_name(type)},
                      {"backward_s", backward},
                      {"median_s", quantile(samples, 0.5)},
                      {"p95_s", quantile(samples, 0.95)},
                      {"exposed_s", quantile(samples, 0.5) - backward},
                      {"samples_s", samples}});
    }
  }
  session.leave();
  return session.first() ? report : ordered_json();
}

std::string rendered(const ordered_json& report, const Common& common, bool replayed) {
  if (common.wanted() == Format::json) return report.dump(2) + "\n";
  if (!replayed) return common.wanted() == Format::csv ? flat(report).csv() : table(report);
  Table t;
  t.headings = {"algorithm", "workload", "buckets", "backward s", "step s", "p95 s", "exposed s"};
  for (const auto& row : report["rows"])
    t.rows.push_back({row["algorithm"], row["workload"], row["buckets"].dump(),
                      fmt::format("{:.4f}", row["backward_s"].get<double>()), fmt::format("{:.4f}", row["median_s"].get<double>()),
                      fmt::format("{:.4f}", row["p95_s"].get<double>()), fmt::format("{:.4f}", row["exposed_s"].get<double>())});
  return common.wanted() == Format::csv ? t.csv() : t.text(common.colour());
}

/// Runs this program again under mpirun for the rows of MPI_Allreduce, over the like of our own wire.
ordered_json under_mpirun(const RunArguments& a) {
  const auto output = std::filesystem::temp_directory_path() / fmt::format("foreduce-mpi-{}.json", ::getpid());
  std::vector<std::string> words = {"mpirun",
                                    "-n",
                                    std::to_string(a.launch.ranks),
                                    "--oversubscribe",
                                    std::filesystem::read_symlink("/proc/self/exe").string(),
                                    "run",
                                    "--algorithm",
                                    "mpi",
                                    "--transport",
                                    "ofi",
                                    "--sizes",
                                    a.sizes,
                                    "--dtype",
                                    a.dtype,
                                    "--warmup",
                                    std::to_string(a.warmup),
                                    "--iterations",
                                    std::to_string(a.iterations),
                                    "--timeout",
                                    fmt::format("{}", a.launch.timeout),
                                    "--format",
                                    "json",
                                    "-o",
                                    output.string()};
  if (a.check) words.push_back("--check");
  const pid_t child = ::fork();
  if (child < 0) throw TransportError("cannot start mpirun");
  if (child == 0) {
    if (!a.launch.threads() && a.launch.provider == "tcp") ::setenv("OMPI_MCA_btl", "self,tcp", 0);
    if (::getuid() == 0) {  // the user who runs foreduce as root has decided that already
      ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
      ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    }
    if (static_cast<unsigned>(a.launch.ranks) > std::thread::hardware_concurrency())
      ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execvp("mpirun", arguments.data());
    fmt::print(stderr, "mpirun does not start: {}\n", std::strerror(errno));
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  std::ifstream file(output);
  const auto report = ordered_json::parse(file, nullptr, false);
  std::error_code ignored;
  std::filesystem::remove(output, ignored);
  if (status != 0 || report.is_discarded()) throw TransportError("the baseline mpi gave no answer");
  return report;
}

int run(RunArguments a, const Common& common) {
  std::vector<std::string> known(std::begin(kBaselines), std::end(kBaselines));
  for (const Algorithm* algorithm : algorithms()) known.emplace_back(algorithm->name);
  bool uses_servers = false;
  for (const std::string& name : a.algorithms) {
    const Algorithm* algorithm = find_algorithm(name);
    if (!algorithm && !is_baseline(name))
      throw input_error(fmt::format("--algorithm: there is no algorithm called '{}'", name), suggest(name, known));
    uses_servers = uses_servers || (algorithm && algorithm->uses_servers);
    if (algorithm) continue;
    if (!a.workload.empty()) throw input_error(fmt::format("--workload replays our algorithms, not {}", name));
    if (name == "mpi" && a.launch.cuda())
      throw input_error("--algorithm mpi reduces host memory, and --transport cuda the devices'", "--transport threads");
    if (name == "nccl" && !a.launch.cuda()) throw input_error("--algorithm nccl reduces GPUs' memory", "--transport cuda");
  }
  const auto element = static_cast<double>(size_of(parse_type(a.dtype)));
  // Each rank has what it sends and what it gets.
  const std::vector<Bytes> sizes = parse_sizes(a.sizes);
  for (const Bytes size : sizes)
    if (a.workload.empty() && size.value < element)
      throw input_error(fmt::format("--sizes {}: {} holds no element of {}", a.sizes, to_text(size), a.dtype));
  const double wanted =
      2 * std::max_element(sizes.begin(), sizes.end())->value * std::max(1, std::max(a.launch.per_process, a.launch.ranks));
  const double there = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  if (a.workload.empty() && !a.launch.cuda() && wanted > there)
    throw input_error(fmt::format("--sizes {}: these ranks need {} of memory, this machine has {}", a.sizes, to_text(Bytes{wanted}),
                                  to_text(Bytes{there})));
  a.launch.servers = a.servers >= 0 ? a.servers : uses_servers ? 1 : 0;
  Output out(common.output);
  const auto mpi = std::find(a.algorithms.begin(), a.algorithms.end(), "mpi");
  const bool under_launcher = a.launch.ranks == 0 && detect_launcher().has_value();
  std::optional<ordered_json> baseline;
  if (mpi != a.algorithms.end() && !under_launcher) {
    // Our rows from this run, the baseline's from another under mpirun: one table.
    a.launch.processes();
    baseline = under_mpirun(a);
    a.algorithms.erase(mpi);
  }
  if (a.algorithms.empty()) {
    out.put(rendered(*baseline, common, false));
    return 0;
  }
  return a.launch.go([&](const ProcessPlace& here) {
    ordered_json report = measured(a, here);
    if (report.is_null()) return;
    if (baseline) {
      report["environment"]["baselines"] = (*baseline)["environment"]["baselines"];
      for (const auto& row : (*baseline)["rows"]) report["rows"].push_back(row);
    }
    out.put(rendered(report, common, !a.workload.empty()));
  });
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("run", "the algorithms on real ranks: threads here, on GPUs, or processes over libfabric");
  const auto a = std::make_shared<RunArguments>();
  const auto common = std::make_shared<Common>();
  command->add_option("--algorithm", a->algorithms, "which, with commas; as baselines mpi (MPI_Allreduce) and, on GPUs, nccl")
      ->delimiter(',')
      ->capture_default_str();
  a->launch.add_to(*command, true);
  command->add_option("--servers", a->servers, "reduction servers per process; default: 1 if an algorithm uses them")
      ->check(CLI::Range(0, 64));
  command->add_option("--sizes", a->sizes, "low:high:xFACTOR, or a list with commas")->capture_default_str();
  command->add_option("--dtype", a->dtype, "f32, f64, f16, bf16 or i32")->capture_default_str();
  command->add_option("--warmup", a->warmup, "iterations that do not count")->check(CLI::Range(0, 100000))->capture_default_str();
  command->add_option("--iterations", a->iterations, "that do")->check(CLI::Range(1, 100000))->capture_default_str();
  command->add_flag("--check", a->check, "compare every element with the sum it must have");
  command->add_option("--inner", a->inner, "hierarchical: between nodes")->capture_default_str();
  command->add_option("--segments", a->segments, "pieces that travel separately; default: by size")->check(CLI::Range(1, 4000));
  command->add_option("--channels", a->launch.channels, "rings or trees side by side")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--workload", a->workload,
                      "replay a training step of it: backward spins on the CPU, buckets are reduced as they become ready");
  command->add_option("--gpu", a->gpu, "with --workload: whose speed to play")->capture_default_str();
  command->add_option("--batch", a->batch, "with --workload: samples per GPU")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--precision", a->precision, "with --workload: of the computation")
      ->check(CLI::IsMember({"fp16", "bf16", "fp32"}))
      ->capture_default_str();
  command->add_option("--sample", a->sample, "with --workload: e.g. '128 tokens'; default: the workload's first");
  command->add_option("--bucket", a->bucket, "with --workload: DDP's bucket size")->capture_default_str();
  command->add_option("--compute-scale", a->compute_scale, "with --workload: lengthen or shorten backward")
      ->check(CLI::Range(1e-6, 1e6))
      ->capture_default_str();
  common->add_to(*command, false);
  command->callback([a, common, &action] { action = [a, common] { return run(*a, *common); }; });
}

Table transports_table() {
  Table t;
  t.headings = {"transport", "here", "what"};
  t.rows.push_back({"threads", "yes", "ranks as threads of one process; a receive reduces straight from the sender's memory"});
  try {
    t.rows.push_back({"ofi", "yes", fmt::format("{}; providers: {}", ofi_version({}), fmt::join(ofi_providers(), ", "))});
  } catch (const TransportError& e) {
    t.rows.push_back({"ofi", "no", e.what()});
  }
#ifdef FOREDUCE_WITH_CUDA
  try {
    const CudaHere here = cuda_here();
    t.rows.push_back({"cuda", "yes",
                      fmt::format("ranks as threads, data on devices; CUDA {}, driver for {}; devices: {}", here.runtime,
                                  here.driver, fmt::join(here.devices, ", "))});
  } catch (const TransportError& e) {
    t.rows.push_back({"cuda", "no", e.what()});
  }
#else
  t.rows.push_back(
      {"cuda", "no", "no CUDA compiler was found when foreduce was configured (nvidia-cuda-toolkit, or NVIDIA's CUDA toolkit)"});
#endif
  t.rows.push_back({"mpi", has_baseline("mpi") ? "yes" : "no", "baseline: MPI_Allreduce, under mpirun"});
  t.rows.push_back({"nccl", has_baseline("nccl") ? "yes" : "no", "baseline: ncclAllReduce, with --transport cuda"});
  return t;
}

}  // namespace foreduce
