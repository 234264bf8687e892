#include "scenarios/validation/row_remarks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "scenarios/validation/evaluation.hpp"
#include "scenarios/validation/suspects.hpp"

namespace foreduce {
namespace {

double measured(const CheckedRow& r) { return r.row.timing().time.value; }
double times_expected(const CheckedRow& r) { return measured(r) / r.expected.value; }

}  // namespace

std::string earlier_words(const CheckedTable& table) {
  const auto mean = [&](bool large) -> std::string {
    double logs = 0;
    int n = 0;
    for (const CheckedRow& r : table.rows)
      if (r.from == HealthyFrom::log && (r.row.bytes >= kLarge) == large) {
        logs += std::log(times_expected(r));
        ++n;
      }
    return n == 0 ? ""
                  : fmt::format("{:.2f} times as long {} 1 MiB", std::exp(logs / n),
                                large ? "from" : "below");
  };
  const std::string small = mean(false), large = mean(true);
  if (small.empty() && large.empty())
    return fmt::format("{} has no size near any of these", table.earlier);
  return fmt::format("beside {} it takes, in the mean of all sizes, {}{}{}", table.earlier, small,
                     small.empty() || large.empty() ? "" : ", and ",
                     large.empty() ? "" : large + " on");
}

std::optional<std::string> bus_bandwidth_words(const NcclTable& table, const CheckedTable& checked,
                                               const Machine& machine) {
  if (checked.collective != Collective::all_reduce || checked.nodes != 2 ||
      method_forced_by(table.facts, checked.collective) == "ring")
    return std::nullopt;
  const double nics = machine.nic.bandwidth.value *
                      std::min(table.facts.nics.value_or(machine.nic.count), machine.nic.count) /
                      1e9;
  const auto most = std::max_element(
      table.rows.begin(), table.rows.end(),
      [](const NcclRow& a, const NcclRow& b) { return a.timing().busbw < b.timing().busbw; });
  if (most->timing().busbw <= nics || most->timing().algbw > nics) return std::nullopt;
  return fmt::format(
      "busbw {:.1f} GB/s is above the NICs' {:.1f} GB/s, which is right: on two nodes a tree sends "
      "each byte once over the network, and busbw counts {:.3f} times",
      most->timing().busbw, nics, 2.0 * (checked.ranks - 1) / checked.ranks);
}

bool may_be_a_switch(const CheckedRow& row) {
  constexpr double kNone = 16 << 20;
  return row.from == HealthyFrom::model && row.row.bytes < kNone;
}

std::optional<std::size_t> changes_early(const CheckedTable& table,
                                         const std::vector<Expectation>& expected,
                                         std::size_t row) {
  constexpr double kApart = 8;
  const CheckedRow& slow = table.rows[row];
  if (!may_be_a_switch(slow) || slow.verdict != Verdict::slow) return std::nullopt;
  for (std::size_t i = row + 1;
       i < table.rows.size() && table.rows[i].row.bytes <= kApart * slow.row.bytes; ++i)
    if (expected[i].by != expected[row].by)
      return slow.row.timing().time.value <= expected[i].high ? std::optional(i) : std::nullopt;
  return std::nullopt;
}

std::optional<std::string> early_change_words(const CheckedTable& table,
                                              const std::vector<Expectation>& expected) {
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    if (const auto change = changes_early(table, expected, i))
      return fmt::format(
          "from {} on it takes as long as if NCCL ran {}, which is expected from {} on: versions "
          "and settings change at different sizes",
          to_text(Bytes{table.rows[i].row.bytes}), expected[*change].by,
          to_text(Bytes{table.rows[*change].row.bytes}));
  return std::nullopt;
}

bool has_doubtful_plateau(const CheckedTable& table) {
  // From 1 MiB on the median source is 7 % off where its kind was measured, and 20 % elsewhere
  // (docs/accuracy.md).
  constexpr double kWide = 1.5, kDoubt = 1.28, kDoubtWhereWide = 1.4;
  const auto& rows = table.rows;
  const auto doubtful = [](const CheckedRow& r) {
    if (r.row.bytes < kPlateau || r.from == HealthyFrom::log) return false;
    if (r.from == HealthyFrom::published) return r.verdict == Verdict::slow;
    const bool wide = r.high.value > kWide * r.expected.value;
    return times_expected(r) > (wide ? kDoubtWhereWide : kDoubt);
  };
  // Where sites that were published agree within 7 %, the largest size alone is enough.
  constexpr double kBelow = 1.1;
  const bool alone = !rows.empty() && rows.back().row.bytes >= kPlateau &&
                     rows.back().from == HealthyFrom::published &&
                     rows.back().row.timing().time.value > kBelow * rows.back().high.value;
  return alone || (rows.size() >= 2 && doubtful(rows.back()) && doubtful(rows[rows.size() - 2]));
}

std::optional<std::string> plateau_words(const CheckedTable& table) {
  constexpr double kBandwidth = 64 << 20, kShort = 1.1;
  const CheckedRow& last = table.rows.back();
  if (last.verdict != Verdict::slow &&
      (last.row.bytes < kBandwidth || times_expected(last) < kShort))
    return std::nullopt;
  const double busbw = last.row.timing().busbw;
  return fmt::format(
      "at {} it reaches {:.1f} GB/s bus bandwidth, {:.0f} % less than the {:.1f} GB/s of {}{}",
      to_text(Bytes{last.row.bytes}), busbw, 100 * (1 - 1 / times_expected(last)),
      busbw * times_expected(last),
      last.from == HealthyFrom::published ? "healthy clusters that were published"
      : last.from == HealthyFrom::log     ? table.earlier
                                          : "the prediction",
      last.verdict == Verdict::slow ? "" : ", which is still inside the interval");
}

std::string onset_words(const CheckedTable& table) {
  const auto& rows = table.rows;
  const auto slow = [&](std::size_t i) { return rows[i].verdict == Verdict::slow; };
  const auto size = [&](std::size_t i) { return to_text(Bytes{rows[i].row.bytes}); };
  std::vector<std::string> where;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!slow(i) || (i > 0 && slow(i - 1))) continue;
    std::size_t last = i;
    while (last + 1 < rows.size() && slow(last + 1)) ++last;
    where.push_back(i == last ? size(i) : size(i) + " to " + size(last));
    if (last + 1 == rows.size() && where.size() == 1)
      where[0] = i == 0 ? "every size" : i == last ? size(i) : size(i) + " and beyond";
  }
  if (where.empty()) return "none of the usual causes fits";
  constexpr std::size_t kMost = 6;
  if (where.size() > kMost) {
    where.resize(kMost);
    where.emplace_back("more");
  }
  std::string text = fmt::format("slower than normal at {}", fmt::join(where, ", "));
  if (slow(rows.size() - 1))
    text += fmt::format(", {:.1f} times the expected time at the largest size",
                        times_expected(rows.back()));
  text += "; none of the usual causes fits. Next: ";
  return text + (table.nodes > 1
                     ? "measure pairs of nodes, of which a slow one shows; then each node alone; "
                       "look at other traffic, and at the NICs' and GPUs' error counters"
                     : "compare with another node; look at the GPUs' clocks (nvidia-smi -q -d "
                       "CLOCK,PERFORMANCE), NVLink (nvidia-smi nvlink -s) and other processes");
}

std::optional<std::string> in_place_words(const CheckedTable& table) {
  constexpr double kMuchLonger = 1.2, kFarLonger = 2, kFarSlower = 1.5;
  std::size_t in_a_row = 0, longest = 0, worst = 0;
  bool far = false;
  const auto ratio = [&](std::size_t i) {
    const NcclRow& r = table.rows[i].row;
    return r.out_of_place && r.in_place ? r.in_place->time / r.out_of_place->time : 0.0;
  };
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const CheckedRow& r = table.rows[i];
    const bool slow = ratio(i) > kMuchLonger && r.row.in_place->time > r.high;
    far = far || (ratio(i) > kFarLonger && r.row.in_place->time > kFarSlower * r.high);
    in_a_row = slow ? in_a_row + 1 : 0;
    longest = std::max(longest, in_a_row);
    if (slow && ratio(i) > ratio(worst)) worst = i;
  }
  if (!far && longest < std::min<std::size_t>(3, table.rows.size())) return std::nullopt;
  const NcclRow& row = table.rows[worst].row;
  return fmt::format(
      "in place it is slower: {} takes {}, {:.1f} times as long as out of place, which the rows "
      "are of; training reduces in place",
      to_text(Bytes{row.bytes}), to_text(row.in_place->time), ratio(worst));
}

std::optional<LoneRow> lone_slow_row(const CheckedTable& table) {
  constexpr double kMuch = 1.4, kFar = 2, kFarOnPlateau = 1.35;
  const auto& rows = table.rows;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const bool last = i + 1 == rows.size();
    const double bytes = rows[i].row.bytes,
                 beside =
                     std::max(times_expected(rows[i - 1]), last ? 0 : times_expected(rows[i + 1])),
                 times = times_expected(rows[i]) / beside;
    // On a plateau one healthy cluster repeats within some per cent.
    const bool plateau = bytes >= kPlateau && rows[i].verdict == Verdict::slow;
    if (bytes < kLarge || (last && (!plateau || i < 2)) ||
        times < (plateau ? kFarOnPlateau : kMuch))
      continue;
    return LoneRow{i, plateau || (times > kFar && !may_be_a_switch(rows[i])),
                   fmt::format("{} takes {:.1f} times as long as the size{} beside it lead{} to "
                               "expect: measure it again",
                               to_text(Bytes{bytes}), times, last ? "" : "s", last ? "s" : "")};
  }
  return std::nullopt;
}

std::string cold_start_words(const CheckedTable& table) {
  const CheckedRow& first = table.rows.front();
  return fmt::format(
      "the first size, {}, takes {:.1f} times as long as expected, and the next ones do not: "
      "connections are made then, so measure with more warm-up (-w 20)",
      to_text(Bytes{first.row.bytes}), times_expected(first));
}

std::string first_use_words(const CheckedRow& row) {
  return fmt::format(
      "{} takes {} out of place, and {} in place, which is measured second: a first use, so "
      "measure "
      "with more warm-up (-w 20)",
      to_text(Bytes{row.row.bytes}), to_text(row.row.out_of_place->time),
      to_text(row.row.in_place->time));
}

bool mostly_fast(const CheckedTable& table) {
  const auto count = [&](Verdict verdict) {
    return std::count_if(table.rows.begin(), table.rows.end(),
                         [&](const CheckedRow& r) { return r.verdict == verdict; });
  };
  return count(Verdict::slow) == 0 && 2 * count(Verdict::fast) > std::ssize(table.rows);
}

double scatter_of(const CheckedTable& table) {
  constexpr double kScatters = 0.12;  // two runs of one healthy cluster differ by some 5 %
  constexpr std::size_t kLeastRows = 6;
  std::vector<double> off;
  const auto& rows = table.rows;
  for (std::size_t i = 1; i + 1 < rows.size(); ++i)
    off.push_back(std::abs(
        std::log(times_expected(rows[i])) -
        0.5 * (std::log(times_expected(rows[i - 1])) + std::log(times_expected(rows[i + 1])))));
  if (off.size() < kLeastRows) return 0;
  std::nth_element(off.begin(), off.begin() + static_cast<std::ptrdiff_t>(off.size() / 2),
                   off.end());
  const double median = off[off.size() / 2];
  return median < kScatters ? 0 : median;
}

std::string scatter_words(double scatter) {
  return fmt::format(
      "sizes scatter by {:.0f} % around their neighbours, so that no cause can be told: measure "
      "again with more iterations (-n 100 -w 20), and without other work on nodes and network",
      100 * (std::exp(scatter) - 1));
}

std::optional<std::string> wrong_sum_words(const NcclTable& table) {
  double wrong = 0, worst = 0;
  std::string at;
  for (const NcclRow& r : table.rows)
    for (const auto* half : {&r.out_of_place, &r.in_place}) {
      if (!*half) continue;
      wrong += (*half)->wrong.value_or(0);
      // What tests before 2.12 called an error: half the digits that the type has, and more.
      const double allowed = r.type == "double" ? 1e-9 : r.type == "float" ? 1e-3 : 0.1;
      if (const double error = (*half)->error.value_or(0); error > std::max(allowed, worst)) {
        worst = error;
        at = to_text(Bytes{r.bytes});
      }
    }
  if (wrong > 0)
    return fmt::format("{:.0f} elements were wrong: whatever the speed, this run is broken", wrong);
  if (table.out_of_bounds > 0)  // nccl-tests counts once a check
    return fmt::format("{:.0f} check{} of results failed: whatever the speed, this run is broken",
                       table.out_of_bounds, table.out_of_bounds == 1 ? "" : "s");
  if (worst == 0) return std::nullopt;
  return fmt::format(
      "the largest error of a sum is {} at {}: whatever the speed, this run is broken",
      std::isinf(worst) ? "no number" : fmt::format("{:.2g}", worst), at);
}

std::optional<std::string> early_end_words(const NcclTable& table) {
  const auto& rows = table.rows;
  const double last = rows.back().bytes, before = rows.size() > 1 ? rows[rows.size() - 2].bytes : 0;
  const double next = last * std::max(2.0, before > 0 ? last / before : 0.0);
  const bool early = !table.ended && next <= table.asked_bytes;
  const bool failed = !table.failure.empty() && !table.ended;
  if (!early && !failed) return std::nullopt;
  std::string why = failed ? fmt::format("the run ended with an error (\"{}\")", table.failure)
                           : "the table ends early";
  if (early)
    why += fmt::format(": it stops at {} of {} that were asked for", to_text(Bytes{last}),
                       to_text(Bytes{table.asked_bytes}));
  return why;
}

std::optional<std::string> late_failure_words(const NcclTable& table) {
  if (table.failure.empty() || !table.ended) return std::nullopt;
  return fmt::format("after its results the log says \"{}\"", table.failure);
}

}  // namespace foreduce
