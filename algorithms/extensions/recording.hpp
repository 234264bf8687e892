// What each rank posts, noted, and how that becomes a program of MSCCL's: each connection becomes a
// thread block at either end.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/extensions/msccl.hpp"

namespace foreduce {

/// What a recorded verb does. `keep` receives into scratch, from where `copy_kept` or `add_kept`
/// takes the data.
enum class RecordedVerbKind : std::uint8_t {
  send,
  recv,
  recv_reduce,
  join,
  keep,
  copy_kept,
  add_kept
};

/// One posted verb of a rank. Event ids are positions in its rank's list, from 1.
struct RecordedVerb {
  RecordedVerbKind kind = RecordedVerbKind::join;
  int peer = -1;
  std::uint64_t tag = 0;
  std::size_t first = 0, count = 0;  ///< elements of the rank's buffer
  std::vector<std::uint32_t> after;  ///< events, for send and join
  int slot = -1;                     ///< chunk of scratch, for what is kept aside
};

using RecordedVerbs = std::vector<std::vector<RecordedVerb>>;  ///< by rank

/// The program in which every rank does what it noted. `shape` has the name, the collective, and
/// the chunks, each of `unit` elements. Receives of a connection must be noted in the order of its
/// sends. Throws std::invalid_argument for messages that a switch adds.
MscclProgram program_of(const RecordedVerbs& recording, MscclProgram shape, std::size_t unit);

}  // namespace foreduce
