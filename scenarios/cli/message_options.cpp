#include "scenarios/cli/message_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>

#include "algorithms/core/inner.hpp"
#include "algorithms/extensions/schedule.hpp"
#include "models/nccl_constants.hpp"
#include "scenarios/cli/shared_options.hpp"

namespace foreduce {
namespace {

/// --nodes as a scenario has it: 4, 1,2,4 or 1..64:x2.
struct NodeCounts {
  Axis<int> nodes;
};
template <class Fields>
void describe(Fields& f, NodeCounts& n) {
  f.required("nodes", n.nodes, "How many instances.", Limits::between(1, 65536));
}

/// --gpus-per-node likewise.
struct GpuCounts {
  Axis<int> gpus;
};
template <class Fields>
void describe(Fields& f, GpuCounts& g) {
  f.required("gpus", g.gpus, "How many GPUs of each.", Limits::between(1, kMostGpusANode));
}

/// --nccl-buffsize likewise.
struct BufferSizes {
  Axis<Bytes> buffsize;
};
template <class Fields>
void describe(Fields& f, BufferSizes& b) {
  f.required("buffsize", b.buffsize, "NCCL_BUFFSIZE.", kNcclBuffers);
}

/// Reads what an option says as a scenario reads a key of `into`.
template <class T>
void read_option(const char* option, const char* key, const std::string& text, T& into) {
  try {
    YamlFile value = YamlFile::parse(option, fmt::format("{{ {}: [{}] }}", key, text));
    read_file(value, into);
  } catch (const InputError& e) {
    std::vector<Problem> problems = e.problems();
    for (Problem& p : problems)  // the line that was read is not the user's
      p = {"", 0, 0, option, std::move(p.message), std::move(p.hint), ""};
    throw InputError(std::move(problems));
  }
}

/// NCCL_ALGO's word behind "nccl" and a sign, "Ring" of "nccl:ring"; empty for other names.
std::string forced_in(const std::string& name) {
  constexpr std::string_view kNccl = "nccl";
  if (!name.starts_with(kNccl) || name.size() < kNccl.size() + 2) return "";
  const auto forced = nccl_algorithm_forced(name.substr(kNccl.size() + 1));
  for (const NcclAlgorithmNames& names : kNcclAlgorithms)
    if (names.algorithm == forced) return names.variable;
  return "";
}

/// What NCCL is forced to, as by its environment variables.
void add_nccl_options(CLI::App& command, MessageOptions& a) {
  command.add_option("--nccl-version", a.nccl_version,
                     "Choose, and cut a tree's data, as this release of NCCL does, such as 2.19. "
                     "On three and more nodes of "
                     "p5 and later AWS's plugin chooses, whatever the release. Default: the newest "
                     "that is known; on p3dn, the one that its profile was measured with.");
  command.add_option("--nccl-algo", a.nccl_algo, "Force NCCL's algorithm, as NCCL_ALGO does.")
      ->transform(one_of(nccl_algorithm_words()));
  command.add_option("--nccl-proto", a.nccl_proto, "Force NCCL's protocol, as NCCL_PROTO does.")
      ->transform(one_of(names_of<NcclProtocol>()));
  command
      .add_option("--nccl-channels", a.nccl_channels,
                  "Force NCCL's channels, as NCCL_MIN_CTAS and NCCL_MAX_CTAS do.")
      ->check(CLI::Range(1, kMostNcclChannels));
  command.add_option(
      "--nccl-buffsize", a.nccl_buffsize,
      "NCCL's buffers, as NCCL_BUFFSIZE sets them: a message of Simple is an eighth at most, and "
      "of "
      "a ring half. Default: 8MiB where aws-ofi-nccl sets it (1.16 and later, on p4d, p5 and p6), "
      "else 4MiB.");
}

void add_algorithm_option(CLI::App& command, MessageOptions& a) {
  auto* option = command.add_option(
      "--algorithm", a.algorithms,
      a.points() == MessagePoints::one
          ? "Which algorithm. nccl is what NCCL would choose, smddp what SageMaker's library does, "
            "best the fastest of nccl and of ours without forest. Default: nccl."
          : "Which algorithms, with commas. nccl is what NCCL would choose, smddp what SageMaker's "
            "library does, best the fastest of nccl and ours (forest only if it is named, too). "
            "Default: nccl, and of ours what can run here and does not take long to simulate.");
  option->delimiter(',');
}

void add_size_option(CLI::App& command, MessageOptions& a) {
  if (a.points() == MessagePoints::one)
    command.add_option("--size", a.sizes, "Message size, e.g. 64MiB.");
  else
    command.add_option(
        "--sizes", a.sizes,
        "Message sizes: low:high:xFACTOR, or a list with commas. Default: 8B:1GiB:x8, or "
        "64KiB:1GiB:x4 where every rank has a block of its own; blocks are rounded down to "
        "multiples of 16 bytes, as nccl-tests does.");
}

}  // namespace

Scenario MessageOptions::asked() const {
  return scenario.empty() ? made() : load_scenario(scenario, set);
}

std::string MessageOptions::sizes_or_default() const {
  if (!sizes.empty()) return sizes;
  return counted_blocks(kind(), 2) == 1 ? usual_sizes : usual_sizes_of_blocks;
}

/// Throws InputError for an option that would have no effect.
void MessageOptions::check_what_acts() const {
  const bool unsaid = algorithms.empty() && points_ == MessagePoints::one;
  const bool nccl = algorithms.empty() ||
                    std::find(algorithms.begin(), algorithms.end(), "nccl") != algorithms.end();
  const bool ours = !unsaid && (algorithms.empty() || algorithms.size() > (nccl ? 1 : 0));
  for (const auto& [option, given, hint] :
       {std::tuple{"--segments", segments > 0, ""},
        {"--channels", channels > 0, "--nccl-channels forces NCCL"},
        {"--protocol", protocol != "auto", "--nccl-proto forces NCCL"}})
    if (!ours && given)
      throw input_error(
          fmt::format("{}: this is for algorithms of foreduce, and only nccl is asked for", option),
          hint);
  if (!nccl && (!nccl_version.empty() || !nccl_algo.empty() || !nccl_proto.empty() ||
                nccl_channels > 0 || !nccl_buffsize.empty()))
    throw input_error(
        "--nccl-version, --nccl-algo, --nccl-proto, --nccl-channels and --nccl-buffsize say how "
        "NCCL runs, which is not asked for",
        "add --algorithm nccl");
}

/// What NCCL is forced to. Throws InputError for a release that is not known.
NcclSpec MessageOptions::nccl() const {
  NcclSpec spec;
  if (!nccl_version.empty()) {
    // As logs print it, 2.20.5+cuda12.4 is of 2.20.
    static const std::regex kPatched(R"((\d+\.\d+)\.\d+([-+].*)?)");
    std::smatch parts;
    const std::string release =
        std::regex_match(nccl_version, parts, kPatched) ? parts[1].str() : nccl_version;
    nccl_constants(release);
    spec.version.values = {release};
  }
  if (!nccl_algo.empty()) spec.algo.values = {nccl_algo};
  if (!nccl_proto.empty()) spec.proto.values = {*value_named<NcclProtocol>(nccl_proto)};
  if (nccl_channels > 0) spec.channels.values = {nccl_channels};
  if (!nccl_buffsize.empty()) {
    BufferSizes buffers;
    read_option("--nccl-buffsize", "buffsize", nccl_buffsize, buffers);
    spec.buffsize = buffers.buffsize;
  }
  return spec;
}

Scenario MessageOptions::made() const {
  if (instances.empty() || nodes.empty())
    throw input_error(fmt::format("{} needs a scenario file, or --instance and --nodes", command_),
                      fmt::format("e.g. foreduce {} --instance p4d.24xlarge --nodes 16", command_) +
                          (points_ == MessagePoints::one ? " --size 64MiB" : ""));
  if (points_ == MessagePoints::one && sizes.empty())
    throw input_error("--size: of how many bytes", "e.g. --size 64MiB");
  Scenario s;
  std::string title(title_of(kind()));
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  s.name = points_ == MessagePoints::one
               ? fmt::format("{} of {} on {} x {}", title, sizes, nodes, fmt::join(instances, ","))
               : title + " algorithms by message size";
  s.cluster.instance.values = each_once(instances);
  NodeCounts read;
  read_option("--nodes", "nodes", nodes, read);
  s.cluster.nodes = read.nodes;
  if (!gpus_per_node.empty()) {
    GpuCounts gpus;
    read_option("--gpus-per-node", "gpus", gpus_per_node, gpus);
    s.cluster.gpus_per_node = gpus.gpus;
  }
  load_schedules(algorithms, "");
  for (const std::string& name : algorithms) {
    if (const std::string forced = forced_in(name); !forced.empty())
      throw input_error(fmt::format("--algorithm: there is no algorithm called '{}'", name),
                        fmt::format("NCCL's own are forced by --nccl-algo: --algorithm nccl "
                                    "--nccl-algo {}",
                                    forced));
    method_named(name, "--algorithm", kind());
  }
  s.allreduce.algorithm.values = each_once(algorithms);
  if (algorithms.empty() && points_ == MessagePoints::one) s.allreduce.algorithm.values = {"nccl"};
  if (bound == to_text(BoundKind::exact) && kind() == Collective::all_to_all)
    throw input_error(
        "--bound exact: of an all-to-all no exact bound is known: cuts do not tell it",
        "--bound groups");
  check_what_acts();
  s.allreduce.nccl = nccl();
  if (const auto names = inner_algorithms(kind()); !names.empty() && !holds(names, inner))
    throw input_error(fmt::format("--inner: '{}' cannot be the inner algorithm{}", inner,
                                  accepted_inner(kind())));
  s.allreduce.inner.values = {inner};
  s.allreduce.profile.values = {profile};
  s.allreduce.segments.values = {segments};
  s.allreduce.protocol.values = {protocol};
  s.allreduce.channels = channels;
  s.messages.emplace();
  s.messages->collective = kind();
  s.messages->dtype = type_named(dtype);
  s.messages->bound = *value_named<BoundKind>(bound);  // of --bound's words
  s.messages->timed_by = timed_by;
  s.messages->sizes.values = parse_sizes(sizes_or_default());
  const Bytes largest =
      *std::max_element(s.messages->sizes.values.begin(), s.messages->sizes.values.end());
  if (largest.value < static_cast<double>(size_of(s.messages->dtype)))
    throw input_error(fmt::format("{}: {} is less than one element of {}",
                                  points_ == MessagePoints::one ? "--size" : "--sizes",
                                  to_text(largest), dtype));
  s.hash = sha1(fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}",
                            fmt::join(instances, ","), nodes, collective, sizes_or_default(), dtype,
                            fmt::join(s.allreduce.algorithm.values, ","), inner, segments, channels,
                            protocol, gpus_per_node, profile, nccl_version, nccl_algo, nccl_proto,
                            nccl_channels, nccl_buffsize, bound, timed_by));
  return s;
}

void MessageOptions::add_to(CLI::App& command) {
  command_ = command.get_name();
  auto* file = command.add_option(
      "scenario", scenario,
      points_ == MessagePoints::one
          ? "YAML file with a workload or messages; otherwise give --instance, --nodes and --size."
          : "YAML file with messages or a workload; otherwise give --instance and --nodes.");
  command.add_option("--instance", instances, "Instance types or ./file.yaml, with commas.")
      ->delimiter(',');
  command.add_option("--nodes", nodes, "How many instances: 4, or 1,2,4, or 1..64:x2.");
  command.add_option("--gpus-per-node", gpus_per_node,
                     "How many GPUs of each instance, the first ones: 4, or 1,2,4. Default: all.");
  add_algorithm_option(command, *this);
  add_collective_option(command, collective);
  command.add_option("--inner", inner, "Algorithm between nodes of hierarchical.")
      ->capture_default_str();
  add_size_option(command, *this);
  command.add_option("--dtype", dtype, "Element type.")
      ->transform(element_type())
      ->capture_default_str();
  command
      .add_option("--segments", segments,
                  "Cut the data into so many segments. Default: chosen by size.")
      ->check(CLI::Range(1, 4000));
  command
      .add_option("--channels", channels,
                  "Use so many rings or trees side by side. Default: one a rail.")
      ->check(CLI::Range(1, 256));
  command
      .add_option("--protocol", protocol,
                  "With which of NCCL's protocols foreduce's own algorithms send: auto is "
                  "the fastest of those that may suit the size.")
      ->transform(one_of({"auto", "LL", "LL128", "Simple"}))
      ->capture_default_str();
  add_nccl_options(command, *this);
  add_caller_option(command, timed_by);
  command
      .add_option(
          "--profile", profile,
          "What messages cost: auto (fitted for the instance type, else for the nearest GPU over "
          "the machine's fabric), ideal, another that ships, one over another fabric "
          "(nccl-h100+rdma), or ./file.yaml.")
      ->capture_default_str();
  if (points_ == MessagePoints::many)
    command
        .add_option("--bound", bound,
                    "Which lower bound stands beside the times: groups cuts the cluster into GPUs, "
                    "nodes and leaves, exact into whatever is worst, which an optimal schedule "
                    "reaches.")
        ->transform(one_of(names_of<BoundKind>()))
        ->capture_default_str()
        ->excludes(file);
  for (const char* flag :
       {"--instance", "--nodes", "--gpus-per-node", "--collective", "--algorithm", "--inner",
        points_ == MessagePoints::one ? "--size" : "--sizes", "--dtype", "--segments", "--channels",
        "--protocol", "--profile", "--nccl-version", "--nccl-algo", "--nccl-proto",
        "--nccl-channels", "--nccl-buffsize", "--timed-by"})
    file->excludes(command.get_option(flag));  // the file says it all
  add_set_option(command, set)->needs(file);
}

}  // namespace foreduce
