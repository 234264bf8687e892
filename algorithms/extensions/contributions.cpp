#include "algorithms/extensions/contributions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace foreduce {

std::optional<Contributions> Contributions::wanted(const MscclProgram& p, int rank, int chunk) {
  const int own = chunks_of_block(p), n = static_cast<int>(p.gpus.size());
  switch (p.collective) {
    case Collective::all_gather: return Contributions(chunk / own, chunk);
    case Collective::broadcast: return Contributions(0, chunk);
    case Collective::all_to_all: return Contributions(chunk / own, rank * own + chunk % own);
    case Collective::reduce_scatter:
      if (chunk / own != rank) return std::nullopt;
      break;
    case Collective::all_reduce: break;
  }
  Contributions sum;
  for (int r = 0; r < n; ++r) sum.terms_.push_back({r, chunk, 1});
  return sum;
}

Contributions Contributions::given(const MscclProgram& p, int rank, int chunk) {
  const bool own = p.collective == Collective::all_gather  ? chunk / chunks_of_block(p) == rank
                   : p.collective == Collective::broadcast ? rank == 0
                                                           : true;
  return own ? Contributions(rank, chunk) : Contributions();
}

Contributions& Contributions::operator+=(const Contributions& other) {
  const auto key = [](const Term& t) { return std::tuple(t.rank, t.chunk); };
  std::vector<Term> sum;
  sum.reserve(terms_.size() + other.terms_.size());
  auto a = terms_.begin();
  auto b = other.terms_.begin();
  while (a != terms_.end() || b != other.terms_.end())
    if (b == other.terms_.end() || (a != terms_.end() && key(*a) < key(*b))) sum.push_back(*a++);
    else if (a == terms_.end() || key(*b) < key(*a)) sum.push_back(*b++);
    else {
      sum.push_back({a->rank, a->chunk, std::min(1000, a->times + b->times)});
      ++a, ++b;
    }
  undefined_ = undefined_ || other.undefined_ || terms_.empty() || other.terms_.empty();
  terms_ = std::move(sum);
  return *this;
}

std::string Contributions::difference(const Contributions& wanted) const {
  if (terms_.empty()) return "no data have arrived there";
  const auto find = [](const std::vector<Term>& in, const Term& t) {
    return std::find_if(in.begin(), in.end(), [&](const Term& other) {
      return other.rank == t.rank && other.chunk == t.chunk;
    });
  };
  for (const Term& t : terms_) {
    const auto meant = find(wanted.terms_, t);
    if (meant == wanted.terms_.end())
      return fmt::format("chunk {} of GPU {} is in it and does not belong there", t.chunk, t.rank);
    if (t.times > 1) return fmt::format("the data of GPU {} are in it {} times", t.rank, t.times);
  }
  for (const Term& t : wanted.terms_)
    if (find(terms_, t) == terms_.end())
      return fmt::format("the data of GPU {} are missing", t.rank);
  return "memory that holds no data yet was added to it";
}

}  // namespace foreduce
