// `foreduce algorithm`: schedules as data.
#include <fmt/format.h>

#include <stdexcept>

#include "algorithms/extensions/mscclpp.hpp"
#include "algorithms/extensions/schedule.hpp"
#include "scenarios/cli/plugin_options.hpp"

namespace foreduce {
namespace {

constexpr const char *kXml = "msccl-xml", *kPlan = "mscclpp-json";

struct ExportArguments {
  std::string algorithm, collective = std::string(name_of(Collective::all_reduce)), format, inner,
                         output;
  int ranks = 8, per_node = 0, segments = 1, channels = 1;
};

/// As asked, else by the ending of the file. Throws InputError where they contradict each other.
std::string format_of(const ExportArguments& a) {
  if (a.output.empty()) return a.format.empty() ? kXml : a.format;
  const std::string by_ending = a.output.ends_with(".json") ? kPlan : kXml;
  if (!a.format.empty() && a.format != by_ending)
    throw input_error(
        fmt::format("-o {}: a file of --format {} has another ending", a.output, a.format),
        a.format == kPlan ? ".json" : ".xml");
  return by_ending;
}

/// A file that foreduce would not read is not written.
void require_readable(const std::string& format, const std::string& text) {
  try {
    if (format == kPlan) parse_mscclpp_plan("", text);
    else parse_msccl_xml("", text);
  } catch (const InputError& e) {
    throw std::invalid_argument(e.problems().front().message);
  }
}

int export_algorithm(const ExportArguments& a) {
  const std::string format = format_of(a);
  load_schedules({a.algorithm}, "");
  const Collective collective = *collective_named(a.collective);
  const Algorithm* algorithm = find_algorithm(a.algorithm, collective);
  if (!algorithm) {
    std::vector<std::string> names;
    for (const Algorithm* one : algorithms(collective)) names.emplace_back(one->name);
    throw input_error(fmt::format("there is no {} called '{}'", title_of(collective), a.algorithm),
                      suggest(a.algorithm, names));
  }
  const std::string inner = inner_algorithm({algorithm}, a.inner);
  const int per_node = a.per_node > 0 ? a.per_node : a.ranks;
  if (a.ranks % per_node != 0)
    throw input_error(fmt::format("--ranks {} is no multiple of --per-node {}", a.ranks, per_node));
  Layout layout = Layout::uniform(a.ranks / per_node, per_node);
  layout.channels.resize(static_cast<std::size_t>(a.channels), layout.channels.front());
  // So that what stands against NVLS is that MSCCL has no step for it.
  layout.switch_reduces = true;
  try {
    const MscclProgram program =
        recorded_program(*algorithm, layout, {a.segments, a.channels, inner});
    const std::string text = format == kPlan ? to_mscclpp_json(program) : to_msccl_xml(program);
    require_readable(format, text);
    write_output(a.output, text);
  } catch (const std::invalid_argument& e) {
    throw input_error(fmt::format("{} on {} ranks cannot be written as {}: {}", a.algorithm,
                                  a.ranks, format, e.what()));
  }
  return 0;
}

}  // namespace

void add_algorithm_command(CLI::App& app, Action& action) {
  auto* algorithm =
      app.add_subcommand("algorithm", "Write an algorithm's schedule for other programs.");
  algorithm->require_subcommand(1);
  add_examples(*algorithm, {"foreduce algorithm export ring --ranks 8 -o ring.xml"});
  auto* command = algorithm->add_subcommand("export",
                                            "Write what each rank sends and receives, for MSCCL or "
                                            "MSCCL++. Such a file can stand wherever "
                                            "an algorithm is named: --algorithm ./schedule.xml.");
  const auto a = std::make_shared<ExportArguments>();
  command->add_option("algorithm", a->algorithm, "Which algorithm.")->required();
  add_collective_option(*command, a->collective);
  command->add_option("--ranks", a->ranks, "For so many GPUs.")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--per-node", a->per_node, "So many of them on a node. Default: all.")
      ->check(CLI::Range(1, 256));
  command->add_option("--segments", a->segments, "Cut the data into so many segments.")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--channels", a->channels, "Use so many rings or trees side by side.")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--inner", a->inner,
                      "Algorithm between nodes, for those that take another one (hierarchical). "
                      "Default: ring.");
  command
      ->add_option("--format", a->format,
                   "MSCCL's XML, or a plan of MSCCL++. Default: by the ending of the file, else "
                   "msccl-xml.")
      ->transform(one_of({kXml, kPlan}));
  add_output_option(*command, a->output)->check(ends_in({".xml", ".json"}));
  add_plugin_option(*command);
  add_examples(*command, {"foreduce algorithm export ring --ranks 8 -o ring.xml",
                          "foreduce compare --instance p4d.24xlarge --nodes 1 --algorithm "
                          "ring,./ring.xml"});
  command->callback([a, &action] { action = [a] { return export_algorithm(*a); }; });
}

}  // namespace foreduce
