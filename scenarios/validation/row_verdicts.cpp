#include "scenarios/validation/row_verdicts.hpp"

#include <algorithm>

#include "scenarios/validation/check_limits.hpp"
#include "scenarios/validation/row_remarks.hpp"

namespace foreduce {
namespace {

double seconds_of(const CheckedRow& r) { return r.row.timing().time.value; }

/// Where healthy sites agree best.
bool is_slow_plateau(const CheckedRow& r) {
  return r.verdict == Verdict::slow && r.from != HealthyFrom::model &&
         r.row.bytes >= CheckLimits::plateau_from;
}

/// Whether a small size, or a table's first, is as it should be in place, where it is measured
/// second.
bool is_slow_at_first(const CheckedTable& table, std::size_t i) {
  const CheckedRow& r = table.rows[i];
  return (i == 0 || r.row.bytes < CheckLimits::bandwidth_from) && r.row.out_of_place &&
         r.row.in_place && r.row.in_place->time <= r.high;
}

bool is_far_slower(const CheckedRow& r) {
  const double most = is_slow_plateau(r) ? CheckLimits::far_slower_on_plateau
                      : may_be_a_switch(r) || r.row.bytes < CheckLimits::latency_below
                          ? CheckLimits::far_slower_at_switch
                          : CheckLimits::far_slower;
  return seconds_of(r) > most * r.high.value;
}

/// The most that count of sizes that follow each other.
std::ptrdiff_t most_beside_each_other(const std::vector<bool>& counts) {
  constexpr std::ptrdiff_t kSizes = 5;
  std::ptrdiff_t most = 0;
  for (auto first = counts.begin(); first != counts.end(); ++first)
    most = std::max(most, std::count(first, first + std::min(kSizes, counts.end() - first), true));
  return most;
}

}  // namespace

const char* name_of(Verdict verdict) {
  return verdict == Verdict::slow ? "slow" : verdict == Verdict::fast ? "fast" : "normal";
}

const char* name_of(HealthyFrom from) {
  return from == HealthyFrom::published ? "published" : from == HealthyFrom::log ? "log" : "model";
}

void set_verdicts(CheckedTable& table, const std::vector<Expectation>& expected) {
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    CheckedRow& r = table.rows[i];
    const Expectation& e = expected[i];
    r.expected = Seconds{e.time};
    r.low = Seconds{e.low};
    r.high = Seconds{e.high};
    r.verdict = seconds_of(r) > e.high  ? Verdict::slow
                : seconds_of(r) < e.low ? Verdict::fast
                                        : Verdict::normal;
  }
}

bool rows_are_normal(const CheckedTable& table, const std::vector<Expectation>& expected,
                     const std::set<std::size_t>& but_for) {
  const auto& rows = table.rows;
  std::size_t slow = 0;
  std::vector<bool> counts;  // slow sizes that no version's other choice explains
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (but_for.contains(i)) continue;
    const bool is_slow = rows[i].verdict == Verdict::slow;  // to be fast is no fault
    if (is_far_slower(rows[i]) && !is_slow_at_first(table, i)) return false;
    slow += is_slow;
    counts.push_back(is_slow && !changes_early(table, expected, i));
  }
  // Of a plateau two sizes are enough; one, where nobody published the size before it.
  const std::size_t n = rows.size();
  const auto unpublished = [](const CheckedRow& r) {
    return r.from == HealthyFrom::model && r.verdict != Verdict::fast &&
           r.row.bytes >= CheckLimits::plateau_from;
  };
  if (n >= 2 && !but_for.contains(n - 1) && !but_for.contains(n - 2) &&
      is_slow_plateau(rows[n - 1]) && (is_slow_plateau(rows[n - 2]) || unpublished(rows[n - 2])))
    return false;
  // A table that ends below it (nccl-tests' own example does, at 128 MiB): two that take far longer
  // than any site published.
  const auto far_from_published = [](const CheckedRow& r) {
    return r.verdict == Verdict::slow && r.from == HealthyFrom::published &&
           r.row.bytes >= CheckLimits::one_protocol_from &&
           seconds_of(r) > CheckLimits::far_slower_on_plateau * r.expected.value;
  };
  if (n >= 2 && !but_for.contains(n - 1) && !but_for.contains(n - 2) &&
      rows[n - 1].row.bytes < CheckLimits::plateau_from && far_from_published(rows[n - 1]) &&
      far_from_published(rows[n - 2]))
    return false;
  // Of a table that has hardly any large size: all of them.
  const bool ends_large = n > 0 && rows.back().row.bytes >= CheckLimits::told_from;
  if (ends_large && !but_for.contains(n - 1) &&
      std::all_of(rows.begin(), rows.end(), [](const CheckedRow& r) {
        return r.verdict == Verdict::slow || r.row.bytes < CheckLimits::bandwidth_from;
      }))
    return false;
  return most_beside_each_other(counts) < std::min<std::ptrdiff_t>(3, std::ssize(rows)) &&
         5 * slow <= n;
}

std::optional<std::size_t> first_use(const CheckedTable& table) {
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    if (is_far_slower(table.rows[i]) && is_slow_at_first(table, i)) return i;
  return std::nullopt;
}

bool starts_cold(const CheckedTable& table) {
  const auto& rows = table.rows;
  return rows.size() > 2 && rows[0].verdict == Verdict::slow &&
         rows[0].row.bytes < CheckLimits::latency_below && rows[1].verdict != Verdict::slow &&
         rows[2].verdict != Verdict::slow &&
         seconds_of(rows[0]) > CheckLimits::repeats_small * seconds_of(rows[1]);
}

}  // namespace foreduce
