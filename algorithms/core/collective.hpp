// The collective operations: what each rank puts in and gets out, and how nccl-tests counts them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "algorithms/core/buffer.hpp"

namespace foreduce {

/// Every rank holds a buffer of `count` elements, which is the size that nccl-tests prints. A
/// rank's own block is chunk `rank` of as many chunks as there are workers, Buffer::chunk.
enum class Collective : std::uint8_t {
  all_reduce,      ///< every rank gets the reduction of all buffers
  reduce_scatter,  ///< every rank gets its own block of the reduction; the other blocks are
                   ///< undefined afterwards
  all_gather,      ///< every rank gives its own block and gets everybody's
  broadcast,       ///< every rank gets the buffer of rank 0
  all_to_all       ///< rank i's j-th block becomes rank j's i-th; blocks have count / workers
                   ///< elements, and what does not divide stays where it is
};
inline constexpr std::array kCollectives = {Collective::all_reduce, Collective::reduce_scatter,
                                            Collective::all_gather, Collective::broadcast,
                                            Collective::all_to_all};

/// As on the command line and in nccl-tests: all_reduce, reduce_scatter, all_gather, broadcast,
/// alltoall.
std::string_view name_of(Collective collective);
/// As in a sentence: all-reduce, reduce-scatter, all-gather, broadcast, all-to-all.
std::string_view title_of(Collective collective);
/// The one of that name_of(), or nothing.
std::optional<Collective> collective_named(std::string_view name);

/// Whether elements of different ranks are reduced; else they only move.
bool reduces(Collective collective);

/// Bus bandwidth over algorithm bandwidth: 2(n-1)/n, (n-1)/n or 1. Source: nccl-tests,
/// doc/PERFORMANCE.md.
double bus_factor(Collective collective, int workers);

/// How many equal blocks the buffer of `workers` ranks has where nccl-tests counts one of them: the
/// workers, or 1 where it counts the whole buffer. Its column "count" is the size over this.
int counted_blocks(Collective collective, int workers);

/// How many of `count` elements take part: all, but for all_to_all a multiple of the workers.
std::size_t elements_of(Collective collective, std::size_t count, int workers);

/// The i-th block of an all_to_all among so many workers.
Buffer equal_block(const Buffer& data, int workers, int i);

/// The elements that worker `rank` gives; none if it only gets.
Buffer input_of(Collective collective, const Buffer& data, int workers, int rank);

/// The elements that are defined on worker `rank` afterwards.
Buffer result_of(Collective collective, const Buffer& data, int workers, int rank);

/// Where an element of a result comes from.
struct Origin {
  int rank = -1;            ///< whose buffer; -1: the reduction of all
  std::size_t element = 0;  ///< of that buffer
};
/// Of element `i` of worker `rank`'s buffer of `count` elements, which must be in result_of().
Origin origin_of(Collective collective, std::size_t count, int workers, int rank, std::size_t i);

}  // namespace foreduce
