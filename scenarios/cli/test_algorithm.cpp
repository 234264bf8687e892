// `foreduce test-algorithm`: the checks of the built-in algorithms, for any.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "algorithms/extensions/schedule.hpp"
#include "input/counted.hpp"
#include "models/rank_layout.hpp"
#include "scenarios/cli/algorithm_checks.hpp"
#include "scenarios/cli/plugin_options.hpp"
#include "scenarios/report/tested_report.hpp"
#include "scenarios/sweep/methods.hpp"

namespace foreduce {
namespace {

struct TestArguments {
  std::string algorithm, collective, inner;
  std::vector<int> ranks{1, 2, 3, 4, 5, 6, 7, 8, 16};
  std::vector<std::size_t> elements{0, 1, 7, 1000, 5040, 2003};
  std::vector<int> segments{1, 3};
  double timeout = 10;
  OutputOptions output;
};

/// A cluster of so many ranks, as a row names it.
struct TestCluster {
  std::string name;
  std::shared_ptr<const Cluster> cluster;
};

/// One rank a node; and of the catalogue an NVLink mesh, rails behind NVSwitch, a switch that adds,
/// and GPUs on PCIe.
std::vector<TestCluster> clusters_of(int ranks, const Algorithm& algorithm) {
  ServerSpec servers;
  servers.co_located = algorithm.uses_servers;
  std::vector<TestCluster> all;
  const auto add = [&](const std::string& name, const Machine& machine, int nodes) {
    const auto one = std::make_shared<const Machine>(machine);
    all.push_back(
        {name, std::make_shared<const Cluster>(std::vector(static_cast<std::size_t>(nodes), one),
                                               FabricSpec{}, servers)});
  };
  add("one rank a node",
      Machine::flat(BytesPerSecond{12.5e9}, Seconds{5e-6}, BytesPerSecond{300e9}), ranks);
  const Catalogue catalogue;
  for (const char* name : {"g5.12xlarge", "p3dn.24xlarge", "p4d.24xlarge", "p5.48xlarge"}) {
    const Machine machine = catalogue.load(name);
    if (ranks % machine.gpus() == 0)
      add(fmt::format("{} x {}", ranks / machine.gpus(), name), machine, ranks / machine.gpus());
  }
  return all;
}

/// Shows how many of the cases of all rows are done.
class Cases {
 public:
  explicit Cases(std::size_t total) : total_(total) {}
  /// So many of the row at hand are.
  void of_row(int done) const {
    if (shown_) shown_(before_ + static_cast<std::size_t>(done), total_);
  }
  /// A row that had so many has ended, perhaps early.
  void row_ended(std::size_t cases) { before_ += cases; }

 private:
  std::function<void(std::size_t, std::size_t)> shown_ = progress_of("cases");
  std::size_t before_ = 0, total_;
};

/// Two for time(): elements of which latency decides, and bandwidth.
constexpr std::array kTimedElements = {std::size_t{1024}, std::size_t{1} << 21};

bool is_flat(const TestCluster& on) { return on.cluster->gpus() == on.cluster->worker_nodes(); }

/// How many cases a row has that fails nowhere.
std::size_t cases_of(const TestArguments& a, const TestCluster& on) {
  const std::size_t timed = is_flat(on) ? kTimedElements.size() : 0;
  return a.segments.size() * (a.elements.size() + timed) + 1;
}

/// Checks one algorithm on one cluster.
class Tester {
 public:
  Tester(const TestArguments& arguments, const Algorithm& algorithm, const Cases& cases)
      : a_(arguments), algorithm_(algorithm), cases_(cases) {}

  TestedAlgorithm row(const TestCluster& on, int ranks) {
    TestedAlgorithm row{
        std::string(algorithm_.name), algorithm_.collective, on.name, ranks, {}, 0, "", ""};
    const auto passed = [&](AlgorithmCheck c) { row.checks.emplace_back(name_of(c), "ok"); };
    if (!sums(on, row)) return row;
    for (const auto c : {AlgorithmCheck::result, AlgorithmCheck::traffic, AlgorithmCheck::bits})
      passed(c);
    if (is_flat(on)) {
      if (!times(ranks, row)) return row;
      passed(AlgorithmCheck::time);
    }
    const SymmetryCheck symmetry = check_symmetry(algorithm_, *on.cluster, 12000, plan(1));
    if (symmetry.used) ++row.cases;
    if (symmetry.broken) fail(row, *symmetry.broken, "12000 elements");
    else if (symmetry.used) passed(AlgorithmCheck::symmetry);
    return row;
  }

 private:
  Plan plan(int segments) const { return {segments, 0, a_.inner}; }

  static void fail(TestedAlgorithm& row, const BrokenRule& rule, const std::string& where) {
    row.checks.emplace_back(name_of(rule.check), "fails");
    row.failure = rule.what;
    row.failed_case = where;
  }

  static std::string case_words(std::size_t elements, int segments) {
    return counted(elements, "element") + " in " + counted(segments, "segment");
  }

  bool sums(const TestCluster& on, TestedAlgorithm& row) {
    std::vector<SumsCase> all;
    for (const int segments : a_.segments)
      for (const std::size_t elements : a_.elements) all.push_back({elements, plan(segments)});
    const auto broken = check_sums(algorithm_, *on.cluster, all, a_.timeout, [&](std::size_t done) {
      cases_.of_row(static_cast<int>(done));
    });
    row.cases = static_cast<int>(all.size());
    if (!broken) return true;
    row.cases = static_cast<int>(broken->number) + 1;
    const auto& [elements, plan] = all[broken->number];
    fail(row, broken->rule, case_words(elements, plan.segments));
    return false;
  }

  bool times(int ranks, TestedAlgorithm& row) {
    for (const int segments : a_.segments)
      for (const std::size_t elements : kTimedElements) {
        cases_.of_row(row.cases++);
        if (const auto broken = check_time(algorithm_, ranks, elements, plan(segments))) {
          fail(row, *broken, case_words(elements, segments));
          return false;
        }
      }
    return true;
  }

  const TestArguments& a_;
  const Algorithm& algorithm_;
  const Cases& cases_;
};

/// A row of the answer.
struct Row {
  const Algorithm* algorithm;
  int ranks;
  TestCluster on;
};

/// The clusters that an algorithm can run on. Throws InputError if there is none.
std::vector<Row> rows_of(const TestArguments& a, const Algorithm& algorithm) {
  std::vector<Row> rows;
  std::string why;
  for (const int ranks : a.ranks)
    for (TestCluster& on : clusters_of(ranks, algorithm)) {
      const Layout layout = rank_layout(*on.cluster);
      const Plan plan = with_defaults(algorithm, {1, 0, a.inner}, layout, 4096);
      if (const auto reason = unsupported_reason(algorithm, layout, plan)) why = *reason;
      else rows.push_back({&algorithm, ranks, std::move(on)});
    }
  if (rows.empty())
    throw input_error(fmt::format("{} cannot run its {} on any of these ranks: {}", algorithm.name,
                                  title_of(algorithm.collective), why),
                      "--ranks N");
  return rows;
}

std::vector<const Algorithm*> asked(const TestArguments& a) {
  load_schedules({a.algorithm}, "");
  std::vector<const Algorithm*> found;
  for (const Collective c : collectives_of(a.algorithm))
    if (a.collective.empty() || a.collective == name_of(c))
      found.push_back(find_algorithm(a.algorithm, c));
  if (!found.empty()) return found;
  std::vector<std::string> names;
  for (const Algorithm* one : all_algorithms())
    if (std::find(names.begin(), names.end(), one->name) == names.end())
      names.emplace_back(one->name);
  if (collectives_of(a.algorithm).empty())
    throw input_error(fmt::format("there is no algorithm called '{}'", a.algorithm),
                      suggest(a.algorithm, names));
  throw input_error(
      fmt::format("{} has no {}", a.algorithm, title_of(*collective_named(a.collective))));
}

int test_algorithm(TestArguments a) {
  const std::vector<const Algorithm*> algorithms = asked(a);
  const bool inner_asked = !a.inner.empty();
  a.inner = inner_algorithm(algorithms, a.inner);
  Answer out(a.output);
  std::vector<Row> asked;
  std::optional<InputError> cannot;
  for (const Algorithm* algorithm : algorithms) try {
      std::vector<Row> some = rows_of(a, *algorithm);
      std::move(some.begin(), some.end(), std::back_inserter(asked));
    } catch (const InputError& e) {  // an inner algorithm may do one collective alone
      if (!inner_asked || algorithms.size() == 1) throw;
      fmt::print(stderr, "not tested: {}\n", words_of(e));
      cannot = e;
    }
  if (asked.empty()) throw InputError(*cannot);
  std::size_t total = 0;
  for (const Row& row : asked) total += cases_of(a, row.on);
  Cases cases(total);
  std::vector<TestedAlgorithm> rows;
  for (const Row& row : asked) {
    rows.push_back(Tester(a, *row.algorithm, cases).row(row.on, row.ranks));
    cases.row_ended(cases_of(a, row.on));
  }
  clear_progress();
  out.put(tested_report(rows));
  out.finish();
  return std::any_of(rows.begin(), rows.end(),
                     [](const TestedAlgorithm& row) { return !row.failure.empty(); });
}

}  // namespace

void add_test_algorithm(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "test-algorithm",
      "Check an algorithm as foreduce's own are checked: exact results, traffic, the same bits on "
      "threads and in the simulator, times within their bounds, and its symmetry.");
  const auto a = std::make_shared<TestArguments>();
  command->add_option("algorithm", a->algorithm, "Name, ./schedule.xml or ./plan.json.")
      ->required();
  command
      ->add_option("--collective", a->collective,
                   "Only this collective. Default: all that it does.")
      ->transform(one_of(names_of<Collective>()));
  command->add_option("--ranks", a->ranks, "Numbers of ranks, with commas.")
      ->delimiter(',')
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  command->add_option("--elements", a->elements, "Elements of a rank's buffer, with commas.")
      ->delimiter(',')
      ->check(CLI::Range(0, 100'000'000))
      ->capture_default_str();
  command->add_option("--segments", a->segments, "Numbers of segments, with commas.")
      ->delimiter(',')
      ->check(CLI::Range(1, 4000))
      ->capture_default_str();
  command->add_option("--inner", a->inner,
                      "Algorithm between nodes, for those that take another one (hierarchical). "
                      "Default: ring.");
  command
      ->add_option("--timeout", a->timeout,
                   "A run on threads that makes no progress for so many seconds has failed.")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  a->output.add_to(*command);
  add_examples(*command, {"foreduce test-algorithm ring",
                          "foreduce test-algorithm my-ring --plugin ./my_ring.so --ranks 2,3,8",
                          "foreduce test-algorithm ./allreduce.xml"});
  command->callback([a, &action] { action = [a] { return test_algorithm(*a); }; });
}

}  // namespace foreduce
