#include "scenarios/validation/row_remarks.hpp"

#include <algorithm>
#include <cmath>

#include "models/caller.hpp"
#include "models/nccl_constants.hpp"
#include "scenarios/validation/check_limits.hpp"
#include "scenarios/validation/log_cluster.hpp"
#include "scenarios/validation/suspects.hpp"

namespace foreduce {
namespace {

double measured(const CheckedRow& r) { return r.row.timing().time.value; }
double times_expected(const CheckedRow& r) { return measured(r) / r.expected.value; }

}  // namespace

remark::BesideEarlier beside_earlier(const CheckedTable& table) {
  const auto mean = [&](bool large) -> std::optional<double> {
    double logs = 0;
    int n = 0;
    for (const CheckedRow& r : table.rows)
      if (r.from == HealthyFrom::log && (r.row.bytes >= CheckLimits::bandwidth_from) == large) {
        logs += std::log(times_expected(r));
        ++n;
      }
    return n == 0 ? std::nullopt : std::optional(std::exp(logs / n));
  };
  return {table.earlier, mean(false), mean(true)};
}

namespace {

/// The largest bus bandwidth of an all-reduce on two nodes, and what their NICs carry together.
std::optional<remark::AtLineRate> beside_nics(const NcclTable& table, const CheckedTable& checked,
                                              const Machine& machine) {
  if (checked.collective != Collective::all_reduce || checked.nodes != 2) return std::nullopt;
  const double nics = machine.nic.bandwidth.value *
                      std::min(table.facts.nics.value_or(machine.nic.count), machine.nic.count) /
                      1e9;
  const auto most = std::max_element(
      table.rows.begin(), table.rows.end(),
      [](const NcclRow& a, const NcclRow& b) { return a.timing().busbw < b.timing().busbw; });
  if (most->timing().algbw > nics) return std::nullopt;
  return remark::AtLineRate{most->timing().busbw, nics};
}

}  // namespace

std::optional<remark::AboveNics> above_nics(const NcclTable& table, const CheckedTable& checked,
                                            const Machine& machine) {
  const auto beside = beside_nics(table, checked, machine);
  const auto fast = std::count_if(checked.rows.begin(), checked.rows.end(),
                                  [](const CheckedRow& r) { return r.verdict == Verdict::fast; });
  const bool not_these = 2 * fast > std::ssize(checked.rows);  // other nodes, as the verdict says
  if (!beside || not_these || beside->busbw <= beside->nics ||
      algorithm_forced_by(table.facts, checked.collective) == NcclAlgorithm::ring)
    return std::nullopt;
  return remark::AboveNics{beside->busbw, beside->nics, 2.0 * (checked.ranks - 1) / checked.ranks};
}

std::optional<remark::AtLineRate> at_line_rate(const NcclTable& table, const CheckedTable& checked,
                                               const Machine& machine) {
  constexpr double kWithin = 0.05;
  const auto beside = beside_nics(table, checked, machine);
  const bool all_cards = table.facts.nics.value_or(machine.nic.count) >= machine.nic.count;
  if (!beside || !all_cards || beside->busbw < (1 - kWithin) * beside->nics ||
      beside->busbw > (1 + CheckLimits::rounding) * beside->nics)
    return std::nullopt;
  return beside;
}

Seconds longer_of_small(const CheckedTable& table, const std::vector<Expectation>& expected) {
  std::vector<double> more;
  std::size_t slow = 0;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const NcclRow& row = table.rows[i].row;
    if (row.bytes > CheckLimits::latency_below) continue;
    more.push_back(row.timing().time.value - expected[i].time);
    slow += row.timing().time.value > expected[i].high;
  }
  if (table.rows.size() < 3 || more.empty() || 2 * slow < more.size()) return Seconds{0};
  std::nth_element(more.begin(), more.begin() + std::ssize(more) / 2, more.end());
  return Seconds{more[more.size() / 2]};
}

std::optional<remark::AsFewerCards> as_fewer_cards(const CheckedTable& checked,
                                                   const NcclFacts& log, const Machine& machine) {
  constexpr double kWithin = 0.05;
  // Any rate is near that of some number of many cards; EFA's plugin says how many it found.
  constexpr int kMostCards = 8;
  const auto& rows = checked.rows;
  const std::size_t n = rows.size();
  const int of = machine.nic.count;
  if (checked.collective != Collective::all_reduce || checked.nodes < 2 || n < 2 || of < 2 ||
      of > kMostCards || machine.nic.efa > 0 || log.nics ||
      rows[n - 2].row.bytes < CheckLimits::plateau_from)
    return std::nullopt;
  const double busbw = rows[n - 1].row.timing().busbw, card = machine.nic.bandwidth.value / 1e9;
  if (std::abs(rows[n - 2].row.timing().busbw / busbw - 1) > kWithin) return std::nullopt;
  for (int cards = 1; cards < of; ++cards)
    if (busbw >= (1 - kWithin) * cards * card &&
        busbw <= (1 + CheckLimits::rounding) * cards * card)
      return remark::AsFewerCards{busbw, cards * card, cards, of};
  return std::nullopt;
}

bool may_be_a_switch(const CheckedRow& row) {
  return row.from == HealthyFrom::model && row.row.bytes < CheckLimits::one_protocol_from;
}

std::optional<std::size_t> changes_early(const CheckedTable& table,
                                         const std::vector<Expectation>& expected,
                                         std::size_t row) {
  const CheckedRow& slow = table.rows[row];
  if (!may_be_a_switch(slow) || slow.verdict != Verdict::slow) return std::nullopt;
  for (std::size_t i = row + 1;
       i < table.rows.size() && table.rows[i].row.bytes <= CheckLimits::far_apart * slow.row.bytes;
       ++i)
    if (expected[i].by != expected[row].by)
      return slow.row.timing().time.value <= expected[i].high ? std::optional(i) : std::nullopt;
  return std::nullopt;
}

std::optional<remark::EarlyChange> early_change(const CheckedTable& table,
                                                const std::vector<Expectation>& expected) {
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    if (const auto change = changes_early(table, expected, i))
      return remark::EarlyChange{Bytes{table.rows[i].row.bytes},
                                 Bytes{table.rows[*change].row.bytes}, expected[*change].by};
  return std::nullopt;
}

bool has_doubtful_plateau(const CheckedTable& table) {
  const auto& rows = table.rows;
  if (!rows.empty() && rows.back().from == HealthyFrom::model &&
      rows.back().verdict == Verdict::normal &&
      rows.back().row.bytes >= CheckLimits::bandwidth_from &&
      rows.back().high > CheckLimits::says_little * rows.back().expected)
    return true;
  const bool ends_early = !rows.empty() && rows.back().row.bytes < CheckLimits::plateau_from;
  const auto doubtful = [ends_early](const CheckedRow& r) {
    if (r.row.bytes < (ends_early ? CheckLimits::one_protocol_from : CheckLimits::plateau_from) ||
        r.from == HealthyFrom::log)
      return false;
    if (r.from == HealthyFrom::published) return r.verdict == Verdict::slow && !ends_early;
    return times_expected(r) > (ends_early ? CheckLimits::doubtful_early : CheckLimits::doubtful);
  };
  const bool alone =
      !rows.empty() && rows.back().row.bytes >= CheckLimits::plateau_from &&
      rows.back().from == HealthyFrom::published &&
      rows.back().row.timing().time.value > CheckLimits::doubtful_alone * rows.back().high.value;
  return alone || (!rows.empty() && doubtful(rows.back()) &&
                   (rows.size() == 1 || doubtful(rows[rows.size() - 2])));
}

std::optional<remark::Plateau> short_plateau(const CheckedTable& table) {
  const CheckedRow& last = table.rows.back();
  if (last.row.bytes < CheckLimits::bandwidth_from) return std::nullopt;  // latency alone
  if (last.verdict != Verdict::slow && (last.row.bytes < CheckLimits::told_from ||
                                        times_expected(last) < CheckLimits::short_plateau))
    return std::nullopt;
  return remark::Plateau{Bytes{last.row.bytes}, last.row.timing().busbw,
                         times_expected(last),  last.from,
                         table.earlier,         last.verdict != Verdict::slow};
}

std::optional<remark::SingleSize> single_size(const CheckedTable& table) {
  const auto& rows = table.rows;
  remark::SingleSize one{rows.size(), rows[0].row.timing().time, rows[0].row.timing().time};
  for (const CheckedRow& r : rows) {
    if (r.row.bytes != rows[0].row.bytes) return std::nullopt;
    one.least = std::min(one.least, r.row.timing().time);
    one.most = std::max(one.most, r.row.timing().time);
  }
  return one;
}

bool only_slow_below_plateau(const CheckedTable& table) {
  bool ends_well = false;
  for (const CheckedRow& r : table.rows) {
    const bool slow = r.verdict == Verdict::slow, large = r.row.bytes >= CheckLimits::plateau_from;
    if (slow &&
        (large || r.from != HealthyFrom::model || times_expected(r) > CheckLimits::model_error))
      return false;
    ends_well = ends_well || large;
  }
  return ends_well;
}

remark::SlowRanges slow_ranges(const CheckedTable& table, const NcclFacts& log,
                               const Machine& machine) {
  const auto& rows = table.rows;
  const auto slow = [&](std::size_t i) { return rows[i].verdict == Verdict::slow; };
  remark::SlowRanges found;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!slow(i) || (i > 0 && slow(i - 1))) continue;
    std::size_t last = i;
    while (last + 1 < rows.size() && slow(last + 1)) ++last;
    found.ranges.emplace_back(Bytes{rows[i].row.bytes}, Bytes{rows[last].row.bytes});
  }
  found.from_first = slow(0);
  found.to_last = slow(rows.size() - 1);
  found.times_expected = times_expected(rows.back());
  found.several_nodes = table.nodes > 1;
  found.below_bandwidth = table.nodes > 1 && !found.to_last &&
                          rows.back().row.bytes >= CheckLimits::plateau_from &&
                          found.times_expected < CheckLimits::short_plateau;
  found.no_tuner = log.tuner == false;
  found.network = network_of(machine);
  found.nvlink = machine.nvlink.has_value();
  return found;
}

std::optional<remark::SlowInPlace> slow_in_place(const CheckedTable& table) {
  // Nothing uses an all-to-all in place, and nccl-tests does not check it there.
  if (table.collective == Collective::all_to_all) return std::nullopt;
  std::size_t in_a_row = 0, longest = 0, worst = 0;
  bool far = false;
  const auto ratio = [&](std::size_t i) {
    const NcclRow& r = table.rows[i].row;
    return r.out_of_place && r.in_place ? r.in_place->time / r.out_of_place->time : 0.0;
  };
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const CheckedRow& r = table.rows[i];
    const bool slow = ratio(i) > CheckLimits::in_place && r.row.in_place->time > r.high;
    const double most = r.row.bytes < CheckLimits::bandwidth_from
                            ? CheckLimits::in_place_far_of_small
                            : CheckLimits::in_place_far;
    far = far || (ratio(i) > most && r.row.in_place->time > CheckLimits::far_slower * r.high);
    in_a_row = slow ? in_a_row + 1 : 0;
    longest = std::max(longest, in_a_row);
    constexpr double kAlike = 0.95;  // of sizes that are as slow the largest is told
    if (slow && ratio(i) > kAlike * ratio(worst)) worst = i;
  }
  if (!far && longest < std::min<std::size_t>(3, table.rows.size())) return std::nullopt;
  const NcclRow& row = table.rows[worst].row;
  return remark::SlowInPlace{Bytes{row.bytes}, row.in_place->time, ratio(worst)};
}

std::optional<LoneRow> lone_slow_row(const CheckedTable& table,
                                     const std::vector<Expectation>& expected) {
  const auto& rows = table.rows;
  // Among sizes that follow each other smoothly less stands out.
  const double far = scatter_of(table) == 0 ? CheckLimits::lone : CheckLimits::lone_far;
  std::optional<LoneRow> small;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const bool last = i + 1 == rows.size();
    // Where rows are left out between two sizes, one says nothing of the other.
    if (rows[i].row.bytes > CheckLimits::beside * rows[i - 1].row.bytes) continue;
    const double bytes = rows[i].row.bytes,
                 beside =
                     std::max(times_expected(rows[i - 1]), last ? 0 : times_expected(rows[i + 1])),
                 times = times_expected(rows[i]) / beside;
    // On a plateau one healthy cluster repeats within some per cent.
    const bool plateau = bytes >= CheckLimits::plateau_from && rows[i].verdict == Verdict::slow;
    const bool large = bytes >= CheckLimits::bandwidth_from;
    if ((last && (!plateau || i < 2)) || times < (plateau ? CheckLimits::lone_on_plateau
                                                  : large ? CheckLimits::lone
                                                          : CheckLimits::lone_far))
      continue;
    if (!large) {  // latency jitters: told, and held against nobody
      if (!small) small = LoneRow{i, false, {Bytes{bytes}, times, last}};
      continue;
    }
    // Where the model's interval is that wide, it does not know the sizes beside it any better.
    const bool vague = rows[i].verdict == Verdict::normal &&
                       rows[i].high > CheckLimits::lone_far * rows[i].expected;
    // Where the model changes protocols beside it, NCCL may do so a size later or earlier.
    const bool changes =
        rows[i].from == HealthyFrom::model && times < CheckLimits::lone_far &&
        (expected[i - 1].by != expected[i].by || (!last && expected[i + 1].by != expected[i].by));
    return LoneRow{i,
                   plateau || (times > far && !vague && !changes && !may_be_a_switch(rows[i])),
                   {Bytes{bytes}, times, last}};
  }
  return small;
}

std::optional<remark::SuddenFall> sudden_fall(const CheckedTable& table) {
  const auto& rows = table.rows;
  const auto busbw = [&](std::size_t i) {
    return rows[i].row.bytes / rows[i].row.timing().time.value;
  };
  const auto expected = [&](std::size_t i) { return rows[i].row.bytes / rows[i].expected.value; };
  std::optional<remark::SuddenFall> deepest;
  double least = CheckLimits::sudden_fall;
  for (std::size_t i = 1; i + 1 < rows.size(); ++i) {
    const bool large = rows[i - 1].row.bytes >= CheckLimits::bandwidth_from &&
                       rows[i].row.bytes <= CheckLimits::far_apart * rows[i - 1].row.bytes;
    const double left = busbw(i) / busbw(i - 1), usual = expected(i) / expected(i - 1);
    if (!large || rows[i].verdict != Verdict::slow || left >= least || usual < 1 ||
        busbw(i + 1) >= busbw(i - 1))
      continue;
    least = left;
    deepest = {Bytes{rows[i - 1].row.bytes}, Bytes{rows[i].row.bytes},
               rows[i].row.timing().time / rows[i - 1].row.timing().time, left, table.nodes > 1};
  }
  return deepest;
}

remark::ColdStart cold_start(const CheckedTable& table) {
  const CheckedRow& first = table.rows.front();
  return {Bytes{first.row.bytes}, times_expected(first)};
}

Seconds longer_by_one_process(const NcclTable& table, Collective collective) {
  const double pairs = collective == Collective::all_to_all ? 0.5 * table.gpus_of_process : 1;
  return Seconds{CheckLimits::one_process * std::max(1.0, pairs)};
}

static std::ptrdiff_t count_of(const CheckedTable& table, Verdict verdict) {
  return std::count_if(table.rows.begin(), table.rows.end(),
                       [&](const CheckedRow& r) { return r.verdict == verdict; });
}

bool fast_in_most(const CheckedTable& table) {
  return 2 * count_of(table, Verdict::fast) > std::ssize(table.rows);
}

bool mostly_fast(const CheckedTable& table) {
  return count_of(table, Verdict::slow) == 0 && fast_in_most(table);
}

namespace {

/// Whether the times in place are those out of place, so that what goes up and down with size is
/// the machine's and no noise.
bool repeats(const CheckedTable& table) {
  std::vector<double> apart;
  for (const CheckedRow& r : table.rows)
    if (r.row.out_of_place && r.row.in_place)
      apart.push_back(
          std::abs(std::log(r.row.in_place->time.value / r.row.out_of_place->time.value)));
  if (apart.size() < CheckLimits::fewest_to_scatter) return false;
  std::sort(apart.begin(), apart.end());
  // Copies of one column are no second measurement.
  return apart.back() > 0 && apart[apart.size() * 3 / 4] < CheckLimits::scatter / 2;
}

}  // namespace

std::optional<double> scatter_of(const CheckedTable& table) {
  if (repeats(table)) return 0;
  std::vector<double> off;
  const auto& rows = table.rows;
  for (std::size_t i = 1; i + 1 < rows.size(); ++i)
    off.push_back(std::abs(
        std::log(times_expected(rows[i])) -
        0.5 * (std::log(times_expected(rows[i - 1])) + std::log(times_expected(rows[i + 1])))));
  if (off.size() < CheckLimits::fewest_to_scatter) return std::nullopt;
  std::nth_element(off.begin(), off.begin() + static_cast<std::ptrdiff_t>(off.size() / 2),
                   off.end());
  const double median = off[off.size() / 2];
  return median < CheckLimits::scatter ? 0 : median;
}

std::vector<Remark> remarks_on_run(const NcclTable& table, Collective collective,
                                   const std::string& timed_by) {
  std::vector<Remark> all;
  const NcclFacts& facts = table.facts;
  if (timed_by != kUsualCaller) all.emplace_back(remark::TimedBy{timed_by});
  if (table.gpus_of_process > 1)
    all.emplace_back(
        remark::OneProcess{table.gpus_of_process, longer_by_one_process(table, collective)});
  if (facts.blocking) all.emplace_back(remark::Blocking{});
  if (!facts.other_plugin.empty()) all.emplace_back(remark::OtherPlugin{facts.other_plugin});
  if (!facts.warnings.empty()) all.emplace_back(remark::Warned{facts.warnings});
  return all;
}

std::optional<remark::NoBandwidth> no_bandwidth(const CheckedTable& table) {
  const double largest = table.rows.back().row.bytes;
  if (largest >= CheckLimits::bandwidth_from) return std::nullopt;
  return remark::NoBandwidth{Bytes{largest}};
}

std::optional<remark::OldNccl> old_nccl(const CheckedTable& table, const Machine& machine) {
  const std::string release = nccl_release_of(table.nccl_version);
  if (release.empty() || !older_than_compared(release, *machine.gpu)) return std::nullopt;
  return remark::OldNccl{table.nccl_version};
}

remark::GuessedInstance guessed_instance(const Machine& machine, int nodes) {
  if (nodes < 2 || machine.fabric() != Fabric::rdma) return {machine.name, 0, {}};
  return {machine.name, machine.nic.count, machine.nic.bandwidth};
}

std::optional<Remark> wrong_sums(const NcclTable& table, Collective collective) {
  double wrong = 0, worst = 0;
  Bytes at;
  for (const NcclRow& r : table.rows)
    for (const auto* half : {&r.out_of_place, &r.in_place}) {
      // An all-to-all cannot run in place: nccl-tests says so, and reports no errors of it.
      if (!*half || (half == &r.in_place && collective == Collective::all_to_all)) continue;
      wrong += (*half)->wrong.value_or(0);
      // What tests before 2.12 called an error: half the digits that the type has, and more.
      const double allowed = r.type == "double" ? 1e-9 : r.type == "float" ? 1e-3 : 0.1;
      if (const double error = (*half)->error.value_or(0); error > std::max(allowed, worst)) {
        worst = error;
        at = Bytes{r.bytes};
      }
    }
  if (wrong > 0) return remark::WrongElements{wrong};
  // nccl-tests counts once a check
  if (table.out_of_bounds > 0) return remark::FailedChecks{table.out_of_bounds};
  if (worst == 0) return std::nullopt;
  return remark::LargeError{worst, at};
}

std::optional<remark::EndedEarly> ended_early(const NcclTable& table) {
  const auto& rows = table.rows;
  const double last = rows.back().bytes, before = rows.size() > 1 ? rows[rows.size() - 2].bytes : 0;
  const double next = last * std::max(2.0, before > 0 ? last / before : 0.0);
  // Of runs side by side another's heading may stand between two rows.
  const bool early = !table.ended && next <= table.asked_bytes && table.independent_runs <= 1;
  const bool failed = !table.failure.empty() && !table.ended;
  if (!early && !failed) return std::nullopt;
  const auto& warnings = table.facts.warnings;
  return remark::EndedEarly{failed ? table.failure : "", Bytes{last}, Bytes{table.asked_bytes},
                            early, failed && !warnings.empty() ? warnings.back() : ""};
}

std::optional<remark::FailedLate> failed_late(const NcclTable& table) {
  if (table.failure.empty() || !table.ended) return std::nullopt;
  return remark::FailedLate{table.failure, table.failure.find("Xid") != std::string::npos};
}

}  // namespace foreduce
