// Schedules of MSCCL: what each thread block of each GPU does, step by step, as its XML files say
// it. Source: microsoft/msccl-tools (README, msccl/language/ir.py) writes such files;
// microsoft/msccl (src/include/msccl.h, the interpreter in
// src/collectives/device/msccl_interpreter.h) runs them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/core/collective.hpp"

namespace foreduce {

/// What a step does. Steps of a thread block run one after another; a send does not wait for its
/// receiver.
enum class StepKind : std::uint8_t {
  nothing,                ///< nop: only waits for what it depends on
  send,                   ///< s
  recv,                   ///< r
  recv_copy_send,         ///< rcs: keeps what arrives, and passes it on
  recv_reduce_send,       ///< rrs: passes on what arrives plus its own, which it need not keep
  recv_reduce_copy,       ///< rrc: adds what arrives to its own
  recv_reduce_copy_send,  ///< rrcs: and passes the sum on
  copy,                   ///< cpy: in this GPU
  reduce                  ///< re: in this GPU, dst = dst + src
};

/// Which buffer of a GPU. In place, input and output are one; see MscclProgram.
enum class MscclBuffer : std::uint8_t { input, output, scratch };

/// Chunks of a buffer, from `first` on; how many, the step says.
struct MscclChunks {
  MscclBuffer place = MscclBuffer::input;
  int first = 0;
};

/// Where something stands in a file, both from 1; 0: nowhere.
struct FilePlace {
  int line = 0, column = 0;
};

/// One step of a thread block.
struct MscclStep {
  StepKind kind = StepKind::nothing;
  MscclChunks from, to;                   ///< srcbuf and srcoff, dstbuf and dstoff
  int count = 1;                          ///< chunks
  int after_block = -1, after_step = -1;  ///< what must be done before it starts; -1: nothing
  FilePlace place;
};

/// One thread block: it sends to at most one GPU and receives from at most one, on one channel.
struct MscclBlock {
  int send_to = -1, recv_from = -1, channel = 0;
  std::vector<MscclStep> steps;
  FilePlace place;
};

struct MscclGpu {
  int input_chunks = 0, output_chunks = 0, scratch_chunks = 0;
  std::vector<MscclBlock> blocks;  ///< by id
  FilePlace place;
};

/// A schedule of one collective for one number of GPUs.
struct MscclProgram {
  std::string file;  ///< for messages
  std::string name;
  Collective collective = Collective::all_reduce;
  int channels = 1;
  int chunks = 1;  ///< nchunksperloop: of the largest buffer of a GPU
  std::string protocol = "Simple";
  std::vector<std::string> without_effect;  ///< attributes that restrict it in MSCCL's runtime, and
                                            ///< not here: "proto=LL", "minBytes=1048576"
  std::vector<MscclGpu> gpus;               ///< by id
};

/// Reads MSCCL's XML. Throws InputError with line and column. `name` is for messages.
MscclProgram parse_msccl_xml(const std::string& name, const std::string& text);

/// Writes MSCCL's XML, which parse_msccl_xml() reads as the same program.
std::string to_msccl_xml(const MscclProgram& program);

/// Chunks of a rank's own block: of a reduce-scatter, all-gather or all-to-all all chunks over the
/// GPUs, otherwise all.
int chunks_of_block(const MscclProgram& program);

/// "s", "rrcs": a step's name in the file.
std::string_view name_of(StepKind kind);

}  // namespace foreduce
