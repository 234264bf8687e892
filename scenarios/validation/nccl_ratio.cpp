#include "scenarios/validation/nccl_ratio.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "algorithms/core/collective.hpp"
#include "input/holds.hpp"
#include "scenarios/validation/nccl_words.hpp"

namespace foreduce {
namespace {

/// A range of busbw over algbw.
struct Range {
  double low = 0, high = 1e9;
  int line = 0;
};

/// How many ranks an all-reduce had, where nothing lists them: busbw is 2(n-1)/n of algbw.
void count_ranks(NcclTable& t, const Range& seen, std::vector<std::string>& notes) {
  std::vector<int> fitting;
  for (int n = std::max(2, t.least_listed);
       n <= 65536 && bus_factor(Collective::all_reduce, n) <= seen.high; ++n)
    if (bus_factor(Collective::all_reduce, n) >= seen.low) fitting.push_back(n);
  if (fitting.empty()) return;
  // Several fit where the ratio nears 2: a power of two, else a multiple of eight, is what people
  // rent.
  const auto first_of = [&](auto usual) {
    return std::find_if(fitting.begin(), fitting.end(), usual);
  };
  auto best = first_of([](int n) { return (n & (n - 1)) == 0; });
  if (best == fitting.end()) best = first_of([](int n) { return n % 8 == 0; });
  t.ranks = best == fitting.end() ? fitting.front() : *best;
  t.ranks_from_columns = true;
  t.least_ranks = fitting.front();
  t.most_ranks = fitting.back();
  if (fitting.size() > 1)
    notes.push_back(fmt::format("from busbw over algbw there are {} to {} ranks; taken as {}",
                                fitting.front(), fitting.back(), t.ranks));
}

/// Half of the last digit that a table's bandwidths are printed with: hundredths, as nccl-tests
/// does, or tenths.
double half_digit(const NcclTable& t) {
  constexpr int kEnough = 3;  // bandwidths that tell
  int seen = 0;
  for (const NcclRow& r : t.rows)
    for (const auto* half : {&r.out_of_place, &r.in_place})
      for (const double value : {*half ? (*half)->algbw : 0.0, *half ? (*half)->busbw : 0.0}) {
        if (std::abs(10 * value - std::round(10 * value)) > 1e-6) return 0.0051;
        seen += value > 0;
      }
  return seen >= kEnough ? 0.051 : 0.0051;
}

/// Whether some collective has that ratio: (n-1)/n, 2(n-1)/n or 1.
bool is_of_a_collective(const Range& ratio) {
  if (ratio.low <= 1 && 1 <= ratio.high) return true;
  for (int n = 2; n <= nccl_words::kMaxRanks; ++n)
    for (const double factor :
         {bus_factor(Collective::all_gather, n), bus_factor(Collective::all_reduce, n)})
      if (ratio.low <= factor && factor <= ratio.high) return true;
  return false;
}

/// What most rows agree on, of bandwidths that may be off by so many halves of their last digit;
/// nothing where they agree on nothing, or messages are tiny. Rows that contradict the others by
/// more than rounding are left out.
std::optional<Range> ratio_within(double halves, NcclTable& t, std::vector<std::string>& notes) {
  const double told = 10 * half_digit(t);  // GB/s: below, the digits say nothing
  std::vector<Range> ranges;
  for (const NcclRow& r : t.rows)
    for (const auto* half : {&r.out_of_place, &r.in_place})
      if (*half && (*half)->algbw >= told) {
        const double a = (*half)->algbw, b = (*half)->busbw, least = half_digit(t),
                     digit = halves * (a < 1000 ? least : 0.051),
                     other = halves * (b < 1000 ? least : 0.051);
        ranges.push_back({(b - other) / (a + digit), (b + other) / (a - digit), r.line});
      }
  if (ranges.empty()) return std::nullopt;
  // The narrowest ranges know best; each that contradicts what is left so far is an outlier.
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& x, const Range& y) { return x.high - x.low < y.high - y.low; });
  Range all;
  constexpr double kRounded = 1.05;  // further off is no rounding
  std::vector<int> odd, wrong;
  for (const Range& r : ranges) {
    if (std::max(all.low, r.low) > std::min(all.high, r.high)) {
      const bool far = r.low > kRounded * all.high || kRounded * r.high < all.low;
      (far && r.line > 0 ? wrong : odd).push_back(r.line);
      continue;
    }
    all.low = std::max(all.low, r.low);
    all.high = std::min(all.high, r.high);
  }
  if (2 * (odd.size() + wrong.size()) > ranges.size()) return std::nullopt;
  const auto tell = [&](const std::vector<int>& lines, const char* then) {
    const std::set<int> all_lines(lines.begin(), lines.end());  // either half of a row may be odd
    if (all_lines.empty()) return;
    notes.push_back(fmt::format(
        "line {}: busbw over algbw is not what the other rows say{}{}", *all_lines.begin(),
        all_lines.size() > 1 ? fmt::format(", and in {} more", all_lines.size() - 1)
                             : std::string(),
        then));
  };
  tell(wrong, "; left out");
  tell(odd, "");
  std::erase_if(t.rows, [&](const NcclRow& r) { return holds(wrong, r.line); });
  return all;
}

std::optional<Range> ratio_of(NcclTable& t, std::vector<std::string>& notes) {
  NcclTable once = t;
  std::vector<std::string> notes_of_once;
  std::optional<Range> ratio = ratio_within(1, once, notes_of_once);
  // Who scales a table rounds what was rounded before.
  if (ratio && !is_of_a_collective(*ratio)) return ratio_within(2, t, notes);
  t = std::move(once);
  notes.insert(notes.end(), notes_of_once.begin(), notes_of_once.end());
  return ratio;
}

/// "8, 16, 24" where each row is of an all-reduce of some number of ranks, and they differ; ""
/// where a row is of none.
std::string ranks_by_row(const NcclTable& t) {
  std::vector<int> all;
  for (const NcclRow& r : t.rows) {
    const auto& half = r.out_of_place ? r.out_of_place : r.in_place;
    if (!half || half->algbw < 10 * half_digit(t)) continue;
    const double ratio = half->busbw / half->algbw,
                 rounding = (1 + ratio) * half_digit(t) / half->algbw;  // of either
    const int ranks = ratio < 2 ? static_cast<int>(std::lround(2 / (2 - ratio))) : 0;
    if (ranks < 2 || ranks > nccl_words::kMaxRanks ||
        std::abs(bus_factor(Collective::all_reduce, ranks) - ratio) > rounding)
      return "";
    if (!holds(all, ranks)) all.push_back(ranks);
  }
  return all.size() < 2 ? "" : fmt::format("{}", fmt::join(all, ", "));
}

/// Size over the size of count elements: 1, or the ranks where count is of a block. Nothing where
/// no row has a count, or it is no whole number.
std::optional<int> blocks_of(const NcclRow& r) {
  const double part = r.count * nccl_words::bytes_of(r.type), blocks = r.bytes / part;
  if (!(part > 0) || blocks < 1 || blocks > nccl_words::kMaxRanks || std::floor(blocks) != blocks)
    return std::nullopt;
  return static_cast<int>(blocks);
}

/// What most rows agree on.
std::optional<int> blocks_of(const NcclTable& t) {
  std::map<int, std::size_t> votes;
  for (const NcclRow& r : t.rows)
    if (const auto blocks = blocks_of(r)) ++votes[*blocks];
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == votes.end() ? std::nullopt : std::optional(most->first);
}

/// Whether the columns leave more than one collective possible.
bool is_open(const NcclTable& t) { return t.collective.find(" or ") != std::string::npos; }

nccl_words::TableSigns signs_of(const NcclTable& t, const Range& ratio) {
  nccl_words::TableSigns signs{ratio.low, ratio.high, t.ranks, false, false, {}, {}};
  bool names_redop = false, out_checked = false, in_checked = false, in_unchecked = false;
  std::size_t only_in_place_wrong = 0;
  const auto is_wrong = [](const NcclTiming& n) {
    return n.wrong.value_or(0) > 0 || n.error.value_or(0) > 0;
  };
  for (const NcclRow& r : t.rows) {
    names_redop = names_redop || !r.redop.empty();
    signs.reduces = signs.reduces || (!r.redop.empty() && r.redop != "none");
    signs.rooted = signs.rooted || r.root >= 0;
    out_checked = out_checked || (r.out_of_place && r.out_of_place->checked());
    in_checked = in_checked || (r.in_place && r.in_place->checked());
    in_unchecked = in_unchecked || (r.in_place && r.in_place->unchecked);
    only_in_place_wrong +=
        r.in_place && r.out_of_place && is_wrong(*r.in_place) && !is_wrong(*r.out_of_place);
  }
  // Layouts of old tests lack the columns that a collective has no use for; JSON leaves them out.
  const bool from_json = !t.rows.empty() && t.rows.front().line == 0;
  // Where nothing names it, no other collective has a bus bandwidth above its algorithm bandwidth.
  signs.reduces = signs.reduces || (!names_redop && (from_json || ratio.low > 1));
  if (const auto blocks = blocks_of(t)) signs.in_blocks = *blocks > 1;
  if (out_checked && (in_checked || in_unchecked)) signs.in_place_checked = in_checked;
  // What cannot run in place was checked there all the same by tests before 2.12.
  if (!signs.reduces && 2 * only_in_place_wrong >= t.rows.size()) signs.in_place_checked = false;
  return signs;
}

/// Leaves out the rows whose size is not their count times what the table's other rows say.
void leave_out_odd_sizes(NcclTable& t, int blocks, std::vector<std::string>& notes) {
  std::erase_if(t.rows, [&](const NcclRow& r) {
    const bool bad = r.bytes != r.count * nccl_words::bytes_of(r.type) * blocks;
    if (bad)
      notes.push_back(fmt::format("line {}: size is not count times the size of {}{}; left out",
                                  r.line, r.type,
                                  blocks > 1 ? fmt::format(" on {} ranks", blocks) : ""));
    return bad;
  });
}

/// What the columns leave possible, where nothing names the collective.
void name_by_columns(NcclTable& t, const std::optional<Range>& ratio,
                     std::vector<std::string>& notes) {
  // Sizes of latency alone have bandwidths of too few digits for a ratio: what counts, reduces and
  // has a root is left to tell.
  constexpr Range kAny{0, 2};
  nccl_words::TableSigns signs = signs_of(t, ratio.value_or(kAny));
  std::vector<std::string> all = nccl_words::collectives_like(signs);
  const bool told_in_place = signs.in_place_checked.has_value();
  signs.in_place_checked.reset();
  const std::vector<std::string> unchecked = nccl_words::collectives_like(signs);
  // Another tool's table of sendrecv may check what is in place.
  if (all.empty() && std::none_of(unchecked.begin(), unchecked.end(), collective_named))
    all = unchecked;
  t.collective = fmt::format("{}", fmt::join(all, " or "));
  if (ratio) t.ratio = 0.5 * (ratio->low + ratio->high);
  constexpr double kOfThree = 4.0 / 3;  // 2(n-1)/n
  if (t.collective == name_of(Collective::all_reduce) && !told_in_place && t.ranks == 0 && ratio &&
      ratio->high < kOfThree)
    notes.emplace_back(
        "nothing names the collective: busbw is algbw, as of an all_reduce of 2 ranks, but also of "
        "sendrecv, which is not judged; taken as all_reduce");
  if (all.size() != 1 || unchecked.size() < 2) return;
  t.or_of = fmt::format("{}", fmt::join(unchecked, " or "));
  notes.push_back(fmt::format(
      "nothing names the collective: {} by busbw over algbw, and {} by what is checked in place "
      "alone; --collective decides",
      t.or_of, t.collective));
}

/// Where the list of ranks was cut short, the rows are of more: an all-reduce's alone has a busbw
/// above what the listed ones could have.
void count_beyond_list(NcclTable& t, const Range& seen, std::vector<std::string>& notes) {
  constexpr double kRounded = 0.01;
  const bool may_reduce =
      t.collective.empty() || collective_named(t.collective) == Collective::all_reduce;
  if (t.ranks == 0 || t.independent_runs > 1 || !may_reduce || seen.low <= 1 ||
      bus_factor(Collective::all_reduce, t.ranks) >= seen.low - kRounded)
    return;
  const int listed = std::exchange(t.ranks, 0);
  count_ranks(t, seen, notes);
  if (t.ranks == 0) {
    t.ranks = listed;
    return;
  }
  // Whole hosts tell how many ranks the others have.
  const int each = t.hosts > 1 && listed % t.hosts == 0 && t.uneven.empty() ? listed / t.hosts : 0;
  t.hosts = each > 0 && t.ranks % each == 0 ? t.ranks / each : 0;
  t.uneven.clear();
  notes.push_back(fmt::format("{} listed, but busbw over algbw is of {}: the list was cut short",
                              listed == 1 ? "1 rank is" : fmt::format("{} ranks are", listed),
                              t.ranks));
}

}  // namespace

void read_ratio(NcclTable& t, std::vector<std::string>& notes) {
  const std::optional<Range> ratio = ratio_of(t, notes);
  constexpr double kNothing = 0.02;  // what most busbw are 0 of: (n-1)/n with one rank
  if (ratio && ratio->high < kNothing && t.ranks == 0) t.ranks = 1;
  if (ratio) count_beyond_list(t, *ratio, notes);
  if (t.collective.empty()) name_by_columns(t, ratio, notes);
  const std::optional<Collective> collective = collective_named(t.collective);
  const std::optional<int> blocks = blocks_of(t);
  // A bandwidth is of several ranks: where count is of the whole size all the same, as old tests
  // have it, no block tells them.
  const bool of_whole = blocks == 1 && t.ranks == 0 && ratio && ratio->low > kNothing;
  const bool in_blocks = collective ? counted_blocks(*collective, 2) > 1 && !of_whole
                                    : is_open(t) && blocks && *blocks > 1;
  if (in_blocks && blocks) {
    if (t.ranks == 0) {
      t.ranks = *blocks;
      t.ranks_from_columns = true;
    }
    leave_out_odd_sizes(t, t.ranks, notes);
  } else if (collective) {
    if (t.ranks == 0 && *collective == Collective::all_reduce) {
      if (ratio) count_ranks(t, *ratio, notes);
      else t.ranks_by_row = ranks_by_row(t);
    }
    leave_out_odd_sizes(t, 1, notes);
  }
  if (!collective || !ratio || t.ranks == 0) return;
  const double due = bus_factor(*collective, t.ranks);
  if (due < ratio->low - 0.01 || due > ratio->high + 0.01)
    notes.push_back(fmt::format("busbw over algbw is {:.4f}, and {} ranks would make it {:.4f}",
                                0.5 * (ratio->low + ratio->high), t.ranks, due));
}

}  // namespace foreduce
