#include "scenarios/validation/detection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "input/holds.hpp"
#include "scenarios/validation/diagnosis.hpp"
#include "scenarios/validation/healthy.hpp"

namespace foreduce {
namespace {

/// A published run as the log that it was.
struct PublishedLog {
  std::string source, machine, caller;
  int nodes = 0;
  bool known = false;      ///< whether another source published times of such a cluster
  bool stands_in = false;  ///< the machine, for one that the source ran on
  NcclLog log;
};

std::vector<PublishedLog> published_logs() {
  constexpr std::size_t kLeastRows = 7;
  constexpr double kShowsBandwidth = 1 << 20;  // an excerpt of small sizes shows no slow links
  std::map<std::tuple<std::string, std::string, int, int>, std::vector<Published>> runs;
  const auto stands_in = [](const Published& p) { return p.machine != p.instance; };
  const Catalogue catalogue;
  for (const Published& p : published_all_reduces()) {
    if (p.algorithm || p.protocol || p.machine.empty() || !is_healthy(p.source)) continue;
    // Between nodes an instance type stands for no other machine.
    if (stands_in(p) && p.nodes > 1 && holds(catalogue.names(), p.machine)) continue;
    runs[{p.source, p.instance, p.nodes, p.gpus}].push_back(p);
  }
  std::vector<PublishedLog> logs;
  for (auto& [key, points] : runs) {
    std::sort(points.begin(), points.end(),
              [](const Published& a, const Published& b) { return a.bytes < b.bytes; });
    if (points.size() < kLeastRows || points.back().bytes.value < kShowsBandwidth) continue;
    PublishedLog one;
    int gpus = 0;
    std::tie(one.source, std::ignore, one.nodes, gpus) = key;
    one.machine = points.front().machine;
    one.stands_in = stands_in(points.front());
    one.known =
        !HealthyRuns(one.machine, one.nodes, gpus, std::nullopt, one.source).sources().empty();
    NcclTable table;
    table.collective = "all_reduce";
    table.ranks = gpus;
    one.caller = points.front().caller;
    for (const Published& p : points) {
      NcclRow row;
      row.bytes = p.bytes.value;
      row.count = p.bytes.value / 4;
      row.type = "float";
      row.redop = "sum";
      row.out_of_place = NcclTiming{p.time, 0, 0, {}};
      table.rows.push_back(row);
    }
    one.log.file = one.source;
    one.log.tables = {table};
    logs.push_back(std::move(one));
  }
  return logs;
}

/// Seconds of the n-th of so many rows, from what a healthy cluster takes and its floor.
struct Row {
  double bytes, time, floor;
  std::size_t number, rows;
};
struct Injected {
  const char* name;
  std::function<double(const Row&)> time;
  bool between_nodes = false;  ///< makes no sense in one node
};

const std::vector<Injected>& faults() {
  const auto from_1mib = [](double factor) {
    return [factor](const Row& r) { return r.bytes >= 1 << 20 ? factor * r.time : r.time; };
  };
  const auto share_of_rails = [](double share) {
    return [share](const Row& r) { return r.floor + (r.time - r.floor) / share; };
  };
  const auto one_size = [](double factor) {
    return [factor](const Row& r) { return r.number == 2 * r.rows / 3 ? factor * r.time : r.time; };
  };
  static const std::vector<Injected> all = {
      {"none", [](const Row& r) { return r.time; }},
      {"x 1.1 from 1 MiB", from_1mib(1.1)},
      {"x 1.15 from 1 MiB", from_1mib(1.15)},
      {"x 1.3 from 1 MiB", from_1mib(1.3)},
      {"x 1.5 from 1 MiB", from_1mib(1.5)},
      {"one rail of four", share_of_rails(0.25), true},
      {"half of the rails", share_of_rails(0.5), true},
      {"TCP at 10 GB/s", [](const Row& r) { return 1.5 * r.time + 2 * r.bytes / 10e9; }, true},
      {"100 us more latency", [](const Row& r) { return r.time + 1e-4; }},
      {"one size x 1.5", one_size(1.5)},
      {"one size x 3", one_size(3)},
      {"every third size x 2.5",
       [](const Row& r) { return r.number % 3 == 1 ? 2.5 * r.time : r.time; }}};
  return all;
}

}  // namespace

std::vector<DetectionRow> detection_of_faults(const BatchOptions& options) {
  const std::vector<PublishedLog> logs = published_logs();
  std::vector<DetectionRow> rows;
  for (const Injected& fault : faults()) {
    DetectionRow& row = rows.emplace_back();
    row.fault = fault.name;
    for (const PublishedLog& healthy : logs) {
      if (fault.between_nodes && healthy.nodes == 1) continue;
      NcclLog log = healthy.log;
      std::vector<NcclRow>& table = log.tables[0].rows;
      const double floor = table.front().timing().time.value;
      for (std::size_t i = 0; i < table.size(); ++i)
        table[i].out_of_place->time = Seconds{
            fault.time({table[i].bytes, table[i].timing().time.value, floor, i, table.size()})};
      CheckQuestion question{healthy.machine, healthy.nodes, HealthyFrom::published,
                             healthy.source};
      question.causes = Causes::not_sought;
      question.timed_by = healthy.caller;
      const bool found = !check(log, question, options).at(0).normal;
      DetectionCount& count = healthy.stands_in ? row.stand_in
                              : healthy.known   ? row.known
                                                : row.model;
      ++count.logs;
      count.found += found;
    }
  }
  return rows;
}

}  // namespace foreduce
