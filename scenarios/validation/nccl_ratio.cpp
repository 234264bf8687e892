#include "scenarios/validation/nccl_ratio.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "scenarios/validation/nccl_words.hpp"

namespace foreduce {
namespace {

/// How many ranks an all-reduce had, where nothing lists them: busbw is 2(n-1)/n of algbw.
void count_ranks(NcclTable& t, double low, double high, std::vector<std::string>& notes) {
  const auto ratio = [](double n) { return 2 * (n - 1) / n; };
  if (t.ranks > 0) {
    if (ratio(t.ranks) < low - 0.01 || ratio(t.ranks) > high + 0.01)
      notes.push_back(
          fmt::format("busbw over algbw is {:.4f}, and {} ranks would make it {:.4f}",
                      0.5 * (low + high), t.ranks, ratio(t.ranks)));
    return;
  }
  std::vector<int> fitting;
  for (int n = 2; n <= 65536 && ratio(n) <= high; ++n)
    if (ratio(n) >= low) fitting.push_back(n);
  if (fitting.empty()) return;
  // Several fit where the ratio nears 2: a multiple of eight is what people rent.
  const auto eights =
      std::find_if(fitting.begin(), fitting.end(), [](int n) { return n % 8 == 0; });
  t.ranks = eights == fitting.end() ? fitting.front() : *eights;
  t.ranks_from_ratio = true;
  if (fitting.size() > 1)
    notes.push_back(fmt::format("from busbw over algbw there are {} to {} ranks; taken as {}",
                                     fitting.front(), fitting.back(), t.ranks));
}

}  // namespace

void read_ratio(NcclTable& t, std::vector<std::string>& notes) {
  constexpr double kTold = 0.05;  // GB/s: below, two decimals say nothing
  struct Range {
    double low, high;
    int line;
  };
  std::vector<Range> ranges;
  bool reduces = false, names_redop = false, rooted = false;
  for (const NcclRow& r : t.rows) {
    names_redop = names_redop || !r.redop.empty();
    reduces = reduces || (!r.redop.empty() && r.redop != "none");
    rooted = rooted || r.root >= 0;
    for (const auto* half : {&r.out_of_place, &r.in_place})
      if (*half && (*half)->algbw >= kTold) {
        const double a = (*half)->algbw, b = (*half)->busbw, digit = a < 1000 ? 0.0051 : 0.051,
                     other = b < 1000 ? 0.0051 : 0.051;
        ranges.push_back({(b - other) / (a + digit), (b + other) / (a - digit), r.line});
      }
  }
  if (ranges.empty()) return;  // nothing but tiny messages
  // The narrowest ranges know best; each that contradicts what is left so far is an outlier.
  std::sort(ranges.begin(), ranges.end(), [](const Range& x, const Range& y) {
    return x.high - x.low < y.high - y.low;
  });
  double low = 0, high = 1e9;
  std::vector<int> odd;
  for (const Range& r : ranges) {
    if (std::max(low, r.low) > std::min(high, r.high)) {
      odd.push_back(r.line);
      continue;
    }
    low = std::max(low, r.low);
    high = std::min(high, r.high);
  }
  if (2 * odd.size() > ranges.size()) return;  // the rows agree on nothing
  if (!odd.empty())
    notes.push_back(fmt::format(
        "line {}: busbw over algbw is not what the other rows say{}", odd.front(),
        odd.size() > 1 ? fmt::format(", and in {} more", odd.size() - 1) : std::string()));
  if (t.collective.empty())
    t.collective = fmt::format(
        "{}", fmt::join(nccl_words::collectives_like({low, high, t.ranks, reduces || !names_redop, rooted}),
                        " or "));
  if (t.collective != "all_reduce") return;
  count_ranks(t, low, high, notes);
}

}  // namespace foreduce
