// The least time that the links of a topology allow a collective, over all ways to cut it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/bounds.hpp"

namespace foreduce {

/// What limits a collective on a topology, whatever its size.
struct ExactCut {
  double seconds_per_byte = 0;  ///< of nccl-tests' size
  std::string because;          ///< "cut into nodes", "cut around node0/gpu3", "routes"
};

/// GPUs and switches with the links between them; GPUs that need not be told apart are one
/// terminal. Switches forward, and neither sum nor multicast.
struct LinkNetwork {
  struct Link {
    std::size_t from, to;
    double width;  ///< bytes per second
  };
  struct Gpu {
    int node = 0, gpu = 0;
  };
  struct Terminal {
    std::size_t vertex = 0;
    std::vector<Gpu> gpus;
  };
  std::size_t vertices = 0;
  std::vector<Link> links;  ///< each has one of the same width the other way
  std::vector<Terminal> terminals;
};

/// The fastest that the links allow, with the cut that forbids more.
/// - All-reduce: over all partitions of the terminals into groups, the least sum of what can leave
///   each group over twice the groups but one. With as many bytes per second, spanning trees can be
///   packed that reduce up and broadcast down (Tutte 1961 and Nash-Williams 1961, with switches
///   split off as Lovász 1976 does); an element needs a combination and a delivery for each group
///   but one, so nothing is faster. Found by Dinkelbach's method, with a max-flow a terminal in
///   each round (Dilworth truncation: Frank & Tardos, Combinatorica 1988).
/// - All-gather and reduce-scatter: over all sets of terminals that leave one out, the least ratio
///   of what can leave the set to the share of the data in it (Zhao et al., ForestColl,
///   arXiv 2402.06787, theorem 1).
/// - Broadcast: the narrowest cut between the first terminal and any other (Edmonds 1973).
/// Needs two terminals, and no all-to-all.
struct BestRate {
  double bytes_per_second = 0;                   ///< of nccl-tests' size
  std::vector<std::vector<std::size_t>> groups;  ///< terminals; the rest is one more group
};
BestRate best_rate(const LinkNetwork& network, Collective collective);

/// The links of a cluster that lie on the route of a message: PCIe beside an NVSwitch carries
/// nothing between GPUs. `joined`: nodes whose GPUs are one terminal.
LinkNetwork link_network(const Cluster& cluster, const std::vector<bool>& joined);

/// The bound of best_rate() on `cluster`; of an all-reduce by up to kMostTreeWorkers GPUs that of
/// pack_trees() where it says more, because messages take one route each ("routes"). Nothing for an
/// all-to-all, of which no cut tells it, and with reduction servers, which may sum and multicast on
/// the way (then it would be a problem of Steiner trees). Throws InputError for more than 2048 GPUs
/// that NVLink does not join.
std::optional<ExactCut> exact_cut(const Cluster& cluster, Collective collective);

/// The larger of that bound and collective_bound(), which counts latencies.
LowerBound exact_bound(const Cluster& cluster, Collective collective, Bytes bytes,
                       const ExactCut& cut);

}  // namespace foreduce
