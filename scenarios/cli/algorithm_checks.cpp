#include "scenarios/cli/algorithm_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "models/bounds.hpp"
#include "models/closed_form.hpp"
#include "models/rank_layout.hpp"
#include "real/thread_backend.hpp"
#include "sim/child_process.hpp"
#include "sim/simulator.hpp"
#include "sim/collective.hpp"

namespace foreduce {
namespace {

constexpr std::array<std::string_view, kAlgorithmChecks.size()> kNames = {
    "result", "traffic", "bits", "time", "symmetry"};

/// Every rank's own copy of `elements` floats. The sum of even elements, which are small whole
/// numbers, is exact in any order. That of odd ones tells by its last bits in which it was made.
struct Data {
  std::vector<std::vector<float>> floats;

  Data(const Layout& layout, std::size_t elements) {
    for (int r = 0; r < layout.size(); ++r) {
      auto& mine = floats.emplace_back(elements);
      std::mt19937 dice(static_cast<unsigned>(r));
      std::uniform_real_distribution<float> any(-1, 1);
      for (std::size_t i = 0; i < elements; ++i)
        mine[i] = i % 2 == 0 ? static_cast<float>((static_cast<std::size_t>(r) * 7 + i * 3) % 32)
                             : any(dice);
      // A server's buffer is workspace and must not leak into a sum.
      if (layout.at(r).server) mine.assign(elements, -1e30f);
    }
  }
  std::vector<Buffer> views() {
    std::vector<Buffer> all;
    for (auto& f : floats)
      all.push_back({reinterpret_cast<std::byte*>(f.data()), 0, f.size(), Type::f32});
    return all;
  }
  const std::vector<float>& of(int rank) const { return floats[static_cast<std::size_t>(rank)]; }
};

/// What belongs into an element afterwards, and how far from it rounding may lead.
struct Right {
  double value = 0, rounding = 0;
};

/// Of element `i` of worker `rank`.
Right right_value(const CollectiveCall& asked, const Layout& layout, const Data& given, int rank,
                  std::size_t i) {
  const Origin origin = origin_of(asked.algorithm.collective, asked.count, layout.workers, rank, i);
  if (origin.rank >= 0) return {given.of(origin.rank)[origin.element]};
  Right sum;
  for (int r = 0; r < layout.workers; ++r) {
    const double value = given.of(r)[origin.element];
    sum.value += value;
    if (origin.element % 2 == 1)
      sum.rounding +=
          layout.workers * double{std::numeric_limits<float>::epsilon()} * std::abs(value);
  }
  return sum;
}

std::optional<BrokenRule> wrong_result(const CollectiveCall& asked, const Layout& layout,
                                       const Data& given, const Data& data) {
  const Collective collective = asked.algorithm.collective;
  for (int r = 0; r < layout.workers; ++r) {
    const Buffer result = result_of(collective, {nullptr, 0, asked.count}, layout.workers, r);
    for (std::size_t i = result.offset; i < result.offset + result.count; ++i)
      if (const Right right = right_value(asked, layout, given, r, i);
          !(std::abs(data.of(r)[i] - right.value) <= right.rounding))
        return BrokenRule{AlgorithmCheck::result,
                          fmt::format("element {} of rank {} is {} and should be {}", i, r,
                                      data.of(r)[i], static_cast<float>(right.value))};
  }
  return std::nullopt;
}

std::optional<BrokenRule> wrong_traffic(const CollectiveCall& asked, const Layout& layout,
                                        const std::vector<Traffic>& traffic, const char* where) {
  for (int r = 0; r < layout.size(); ++r) {
    const std::size_t claimed = asked.algorithm.sends(layout, r, asked.count, asked.plan);
    if (const auto sent = traffic[static_cast<std::size_t>(r)].elements_sent; sent != claimed)
      return BrokenRule{
          AlgorithmCheck::traffic,
          fmt::format("rank {} sends {} elements {} and claims {}", r, sent, where, claimed)};
  }
  return std::nullopt;
}

/// The bits of what is defined afterwards.
std::optional<BrokenRule> other_bits(const CollectiveCall& asked, const Layout& layout,
                                     const Data& simulated, const Data& on_threads) {
  for (int r = 0; r < layout.workers; ++r) {
    const Buffer result =
        result_of(asked.algorithm.collective, {nullptr, 0, asked.count}, layout.workers, r);
    if (result.count > 0 &&
        std::memcmp(simulated.of(r).data() + result.offset, on_threads.of(r).data() + result.offset,
                    result.count * sizeof(float)) != 0)
      return BrokenRule{AlgorithmCheck::bits,
                        fmt::format("rank {} has other bits in the simulator than on threads", r)};
  }
  return std::nullopt;
}

nlohmann::json told(const BrokenRule& rule) {
  return {{"check", static_cast<int>(rule.check)}, {"what", rule.what}};
}
BrokenRule heard(const nlohmann::json& told) {
  return {static_cast<AlgorithmCheck>(told.at("check").get<int>()),
          told.at("what").get<std::string>()};
}

SimOptions in_full() {
  SimOptions options;
  options.use_symmetry = false;
  return options;
}

/// A run on threads, a simulation with real bytes, and one without.
std::optional<BrokenRule> wrong_sums(const CollectiveCall& asked, const Layout& layout,
                                     double timeout_s) {
  const Data given(layout, asked.count);
  Data on_threads = given, simulated = given;
  ThreadOptions options;
  options.timeout_s = timeout_s;
  const ThreadRun run =
      run_on_threads(asked.algorithm, layout, on_threads.views(), Op::sum, asked.plan, options);
  if (auto wrong = wrong_result(asked, layout, given, on_threads)) return wrong;
  if (auto wrong = wrong_traffic(asked, layout, run.traffic, "on threads")) return wrong;
  const CollectiveResult with_bytes = simulate_here(asked, {}, simulated.views());
  if (auto wrong = other_bits(asked, layout, simulated, on_threads)) return wrong;
  if (auto wrong = wrong_traffic(asked, layout, with_bytes.traffic, "in the simulator"))
    return wrong;
  // Carrying bytes does not change the time.
  const Seconds without = simulate_here(asked, in_full()).time;
  if (with_bytes.time != without)
    return BrokenRule{
        AlgorithmCheck::time,
        fmt::format("with real data it takes {} s, without {} s: its schedule depends "
                    "on the data",
                    with_bytes.time.value, without.value)};
  return std::nullopt;
}

/// How long checking a case may take: two simulations of as many messages as a ring has, and data
/// for every rank. Counted, not tried, for a plug-in may end the process that runs it.
double seconds_to_check(const Layout& layout, std::size_t elements, const Plan& plan) {
  constexpr double kMessage = 12e-6, kElement = 100e-9;  // twice and more of what they took
  const double ranks = layout.size();
  return 2 * kMessage * 2 * ranks * ranks * plan.segments * plan.channels +
         kElement * ranks * static_cast<double>(elements);
}

}  // namespace

std::string_view name_of(AlgorithmCheck check) { return kNames[static_cast<std::size_t>(check)]; }

std::optional<BrokenCase> check_sums(const Algorithm& algorithm, const Cluster& cluster,
                                     const std::vector<SumsCase>& cases, double timeout_s,
                                     const std::function<void(std::size_t)>& waiting) {
  const Layout layout = rank_layout(cluster);
  std::vector<std::function<nlohmann::json()>> work;
  double longest = 0;
  for (const auto& [elements, asked_plan] : cases) {
    const Plan plan = with_defaults(algorithm, asked_plan, layout, elements * sizeof(float));
    if (const auto why = unsupported_reason(algorithm, layout, plan))
      return BrokenCase{work.size(), {AlgorithmCheck::result, *why}};
    longest = std::max(longest, seconds_to_check(layout, elements, plan));
    work.emplace_back([&, plan, elements = elements]() -> nlohmann::json {
      const auto wrong = wrong_sums({cluster, algorithm, plan, elements}, layout, timeout_s);
      return wrong ? told(*wrong) : nlohmann::json();
    });
  }
  // Ranks that wait in vain say so themselves; one that never comes back is killed.
  constexpr double kToSaySo = 2;
  ChildOptions options;
  options.tasks_each = work.size();
  options.most_seconds = 2 * timeout_s + kToSaySo + longest;
  std::size_t done = 0;
  load_simulator();
  std::optional<BrokenCase> broken;
  options.stop = [&] {
    if (waiting) waiting(done);
    return broken.has_value();
  };
  run_in_children(
      work,
      [&](std::size_t number, const ChildResult& child) {
        ++done;
        if (broken) return;
        if (!child.ok) broken = BrokenCase{number, {AlgorithmCheck::result, child.error}};
        else if (!child.value.is_null()) broken = BrokenCase{number, heard(child.value)};
      },
      options);
  return broken;
}

std::optional<BrokenRule> check_time(const Algorithm& algorithm, int ranks, std::size_t elements,
                                     Plan plan) {
  const FlatNetwork network{Seconds{5e-6}, BytesPerSecond{12.5e9}, BytesPerSecond{300e9}};
  const auto machine = std::make_shared<const Machine>(
      Machine::flat(network.bandwidth, network.latency, network.reduce_bandwidth));
  ServerSpec servers;
  servers.co_located = algorithm.uses_servers;
  const Cluster cluster(std::vector(static_cast<std::size_t>(ranks), machine), {}, servers);
  const Layout layout = rank_layout(cluster);
  plan = with_defaults(algorithm, plan, layout, elements * sizeof(float));
  if (const auto why = unsupported_reason(algorithm, layout, plan))
    return BrokenRule{AlgorithmCheck::time, *why};
  const ClosedForm form = closed_form(algorithm, layout, elements, sizeof(float), plan, network);
  SimOptions options = in_full();
  options.reduce_segment = Bytes{1e18};
  const Seconds time = simulate({cluster, algorithm, plan, elements}, options).time;
  const std::size_t travelling = elements_of(algorithm.collective, elements, layout.workers);
  const Seconds bound = collective_bound(cluster, algorithm.collective,
                                         Bytes{static_cast<double>(travelling * sizeof(float))})
                            .time;
  constexpr double kRounding = 1e-6;
  const auto wrong = [&](const char* how, Seconds limit) {
    return BrokenRule{AlgorithmCheck::time,
                      fmt::format("it takes {:.6g} s, {} {:.6g} s", time.value, how, limit.value)};
  };
  if (time < form.least * (1 - kRounding))
    return wrong("less than what it sends and its steps take,", form.least);
  // A rank alone with its server passes data on within a host, where links take no time.
  constexpr Seconds kNoTime{1e-12};
  if (time > form.most * (1 + kRounding) + kNoTime)
    return wrong("more than what it sends and its steps can take,", form.most);
  if (time < bound * (1 - kRounding)) return wrong("less than any algorithm can take,", bound);
  return std::nullopt;
}

SymmetryCheck check_symmetry(const Algorithm& algorithm, const Cluster& cluster,
                             std::size_t elements, Plan plan) {
  const Layout layout = rank_layout(cluster);
  plan = with_defaults(algorithm, plan, layout, elements * sizeof(float));
  if (unsupported_reason(algorithm, layout, plan)) return {};
  const auto unit = static_cast<std::size_t>(2 * layout.workers * plan.channels * plan.segments) *
                    std::max<std::size_t>(1, layout.node_rings.size());
  const std::size_t count = std::max<std::size_t>(1, elements / unit) * unit;
  const CollectiveCall asked{cluster, algorithm, plan, count};
  const auto broken = [](std::string what) {
    return SymmetryCheck{true, BrokenRule{AlgorithmCheck::symmetry, std::move(what)}};
  };
  const CollectiveResult full = simulate(asked, in_full());
  CollectiveResult reduced;
  try {
    reduced = simulate(asked, {});
  } catch (const TransportError& e) {
    return broken(e.what());
  }
  if (!reduced.symmetric) return {};
  constexpr double kRounding = 1e-9;
  const auto alike = [](double a, double b) {
    return std::abs(a - b) <= kRounding * std::max(std::abs(a), std::abs(b));
  };
  if (!alike(reduced.time.value, full.time.value))
    return broken(fmt::format("by symmetry it takes {:.9g} s, in full {:.9g} s", reduced.time.value,
                              full.time.value));
  for (const LinkLoad& load : full.loads) {
    const auto same = std::find_if(reduced.loads.begin(), reduced.loads.end(),
                                   [&](const LinkLoad& other) { return other.link == load.link; });
    if (same == reduced.loads.end() || !alike(same->bytes, load.bytes))
      return broken(fmt::format("by symmetry {} carries other bytes than in full", load.link));
  }
  return {true, std::nullopt};
}

}  // namespace foreduce
