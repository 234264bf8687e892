#include "sim/alternatives.hpp"

#include <algorithm>
#include <iterator>

namespace foreduce {
namespace {

/// Between an alternative of fewer and one of more elements that both took so much longer, it is
/// needless, if these are no further apart. Of 3,480 alternatives of a sweep of 1,000 points 850
/// were left out by this, and none of them was faster.
constexpr double kClearly = 1.05, kFurthest = 2;

}  // namespace

void Alternatives::add(std::size_t number, const Alternative& alternative,
                       const std::string& family, std::size_t count) {
  Family& alike = families_[family];
  alike.emplace(count, number);
  all_.insert_or_assign(number, One{alternative, &alike, count});
}

void Alternatives::remove(std::size_t number) {
  const auto at = all_.find(number);
  if (at == all_.end()) return;
  at->second.family->erase(at->second.count);
  all_.erase(at);
}

std::size_t Alternatives::stands_for(std::size_t number) const {
  const auto at = all_.find(number);
  return at == all_.end() ? number : at->second.alternative.to;
}

bool Alternatives::lost(std::size_t number, const TimeOf& time_of) const {
  const Seconds time = time_of(number), other = time_of(all_.at(number).alternative.to);
  return time.value > 0 && other.value > 0 && time > kClearly * other;
}

bool Alternatives::decidable(std::size_t number,
                             const std::function<bool(std::size_t)>& known) const {
  const One& one = all_.at(number);
  const int turn_here = turn(number);
  return known(one.alternative.to) &&
         std::all_of(one.family->begin(), one.family->end(), [&](const auto& alike) {
           return turn(alike.second) >= turn_here || known(alike.second);
         });
}

bool Alternatives::needless(std::size_t number, const TimeOf& time_of) const {
  const auto at = all_.find(number);
  if (at == all_.end()) return false;
  const One& one = at->second;
  const Seconds other = time_of(one.alternative.to);
  if (other.value > 0 && other <= one.alternative.least) return true;
  const int turn_here = turn(number);
  const auto is_known = [&](const auto& alike) {
    return time_of(alike.second).value > 0 && turn(alike.second) < turn_here;
  };
  const auto more = std::find_if(one.family->upper_bound(one.count), one.family->end(), is_known);
  const auto fewer = std::find_if(std::make_reverse_iterator(one.family->lower_bound(one.count)),
                                  one.family->rend(), is_known);
  return more != one.family->end() && fewer != one.family->rend() &&
         static_cast<double>(more->first) <= kFurthest * static_cast<double>(fewer->first) &&
         lost(more->second, time_of) && lost(fewer->second, time_of);
}

int Alternatives::turn(std::size_t number) const {
  const auto at = all_.find(number);
  if (at == all_.end()) return 0;
  const Family& family = *at->second.family;
  auto first = std::ptrdiff_t{0}, last = std::ssize(family) - 1;
  const auto place =
      std::min(last, std::distance(family.begin(), family.lower_bound(at->second.count)));
  int turn = 1;
  for (; place != first && place != last; ++turn) {
    const auto middle = (first + last) / 2;
    if (place == middle) return turn + 1;
    (place < middle ? last : first) = middle;
  }
  return turn;
}

}  // namespace foreduce
