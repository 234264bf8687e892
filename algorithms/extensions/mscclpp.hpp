// Execution plans of MSCCL++: what each thread block of each GPU reads, writes and waits for in
// others' memory, as its JSON files say it. Source: microsoft/mscclpp, src/core/executor
// (execution_plan.cc reads such files) and python/mscclpp/language/internal/operations.py (writes
// them).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/extensions/msccl.hpp"

namespace foreduce {

/// Chunks of one GPU's memory, which another may read or write.
struct PlanBuffer {
  int gpu = 0;
  MscclBuffer buffer = MscclBuffer::input;
  int first = 0, count = 1;
};

enum class PlanOpKind : std::uint8_t {
  nothing,  ///< nop, flush: order within the thread block, which a thread block keeps anyway
  signal,   ///< signal, rlxsignal: tells the peers of its channels
  wait,     ///< wait, rlxwait: until each peer has told
  acquire,  ///< sem_acquire: takes one from each semaphore of the GPU
  release,  ///< sem_release
  barrier,  ///< until so many thread blocks of the GPU are there
  move,     ///< put, get, copy and their packets: each source to its destination
  reduce    ///< re, rre, res, rres and their packets: the sum of all sources to all destinations
};

/// One operation. Those of a pipeline stand in its place, since each piece of the data goes through
/// the same.
struct PlanOp {
  PlanOpKind kind = PlanOpKind::nothing;
  std::string name;  ///< in the file
  std::vector<PlanBuffer> from, to;
  std::vector<int> channels;  ///< of the GPU, for signal, wait, and put with signal
  std::vector<int> semaphores;
  int barrier = -1, blocks = 0;
  bool awaits_packets = false;  ///< it starts when its own scratch has been written
  bool signals = false;         ///< it is followed by a signal on its channels
  FilePlace place;
};

struct PlanGpu {
  int scratch_chunks = 0;
  /// By channel: the GPU and the channel at its other end.
  std::vector<std::pair<int, int>> peers;
  std::vector<int> semaphores;  ///< what each holds at first
  std::vector<std::vector<PlanOp>> blocks;
};

struct MscclppPlan {
  MscclProgram shape;  ///< name, collective, chunks; no GPUs
  std::vector<PlanGpu> gpus;
};

/// Reads an execution plan. Throws InputError with line and column, also for operations of a
/// switch, which foreduce cannot play. `name` is for messages.
MscclppPlan parse_mscclpp_plan(const std::string& name, const std::string& text);

/// The program of MSCCL's in which messages do what the plan's reads and writes do. Throws
/// InputError with the line for a plan that never ends, or that keeps in scratch what messages
/// cannot bring. Whether its result is right, lowered() finds.
MscclProgram as_messages(const MscclppPlan& plan);

/// Writes a schedule as an execution plan: packets in one thread block a GPU. Throws InputError as
/// lowered() does.
std::string to_mscclpp_json(const MscclProgram& program);

}  // namespace foreduce
