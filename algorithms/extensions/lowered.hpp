// What a schedule of MSCCL's comes to on a transport: which verbs each rank posts, in which order.
#pragma once

#include <cstdint>

#include "algorithms/extensions/msccl.hpp"

namespace foreduce {

enum class LoweredVerb : std::uint8_t {
  send,
  recv,
  recv_reduce,
  join  ///< happens when all that it is after have
};

/// Chunks that travel together: a message's place in the sequence of its connection, and which
/// chunks of the rank's buffer it is read from or written to.
struct LoweredRange {
  int sequence = 0, first = 0, count = 1;
  bool follows = false;  ///< it is packed behind the range before it
};

/// One verb of one rank. Its chunks are those of the rank's buffer, in which input and output are
/// one; an own block begins at rank x chunks_of_block().
struct LoweredVerbs {
  LoweredVerb verb = LoweredVerb::join;
  int peer = -1, channel = 0;
  std::vector<LoweredRange> ranges;  ///< none for a join; several travel as one message
  std::vector<int> after;            ///< earlier verbs of this rank, by number; for send and join
};

struct LoweredSchedule {
  std::vector<std::vector<LoweredVerbs>> ranks;
  int longest_chain = 0;  ///< messages one after another
};

/// Runs the program step by step on sets of contributions in place of numbers, and notes which
/// verbs do the same on a transport, where input and output are one buffer and what arrives is kept
/// aside until it is added or copied. Throws InputError with the step's line for a program that
/// never ends, that loses or doubles a contribution, or that a transport has no verbs for: data
/// that are sent on from scratch, or added or copied within a GPU where they did not just arrive.
LoweredSchedule lowered(const MscclProgram& program);

}  // namespace foreduce
