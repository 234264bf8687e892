#include "algorithms/core/collective.hpp"

#include <algorithm>

namespace foreduce {
namespace {

struct Names {
  std::string_view name, title;
};
constexpr std::array<Names, kCollectives.size()> kNames = {{{"all_reduce", "all-reduce"},
                                                            {"reduce_scatter", "reduce-scatter"},
                                                            {"all_gather", "all-gather"},
                                                            {"broadcast", "broadcast"},
                                                            {"alltoall", "all-to-all"}}};

/// Which of n nearly equal chunks holds element `i` of `count`.
int chunk_of(std::size_t count, int n, std::size_t i) {
  const auto chunks = static_cast<std::size_t>(n);
  const std::size_t small = count / chunks, larger = count % chunks, cut = larger * (small + 1);
  return static_cast<int>(i < cut ? i / (small + 1) : larger + (i - cut) / small);
}

}  // namespace

std::string_view name_of(Collective c) { return kNames[static_cast<std::size_t>(c)].name; }
std::string_view title_of(Collective c) { return kNames[static_cast<std::size_t>(c)].title; }

std::optional<Collective> collective_named(std::string_view name) {
  for (const Collective c : kCollectives)
    if (name_of(c) == name) return c;
  return std::nullopt;
}

bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter;
}

double bus_factor(Collective collective, int workers) {
  const double others = workers > 0 ? (workers - 1.0) / workers : 0;
  switch (collective) {
    case Collective::all_reduce: return 2 * others;
    case Collective::broadcast: return 1;
    case Collective::reduce_scatter:
    case Collective::all_gather:
    case Collective::all_to_all: break;
  }
  return others;
}

int counted_blocks(Collective collective, int workers) {
  return collective == Collective::all_reduce || collective == Collective::broadcast ? 1 : workers;
}

std::size_t elements_of(Collective collective, std::size_t count, int workers) {
  return collective == Collective::all_to_all ? count - count % static_cast<std::size_t>(workers)
                                              : count;
}

Buffer equal_block(const Buffer& data, int workers, int i) {
  const std::size_t each = data.count / static_cast<std::size_t>(workers);
  return {data.base, data.offset + static_cast<std::size_t>(i) * each, each, data.type};
}

Buffer input_of(Collective collective, const Buffer& data, int workers, int rank) {
  if (collective == Collective::all_gather) return data.chunk(workers, rank);
  Buffer whole = data;
  if (collective == Collective::broadcast && rank != 0) whole.count = 0;
  return whole;
}

Buffer result_of(Collective collective, const Buffer& data, int workers, int rank) {
  if (collective == Collective::reduce_scatter) return data.chunk(workers, rank);
  Buffer whole = data;
  whole.count = elements_of(collective, data.count, workers);
  return whole;
}

Origin origin_of(Collective collective, std::size_t count, int workers, int rank, std::size_t i) {
  switch (collective) {
    case Collective::all_gather: return {chunk_of(count, workers, i), i};
    case Collective::broadcast: return {0, i};
    case Collective::all_to_all: {
      const std::size_t each = count / static_cast<std::size_t>(workers);
      return {static_cast<int>(i / each), static_cast<std::size_t>(rank) * each + i % each};
    }
    case Collective::all_reduce:
    case Collective::reduce_scatter: break;
  }
  return {-1, i};
}

}  // namespace foreduce
