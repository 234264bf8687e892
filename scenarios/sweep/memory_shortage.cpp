#include "scenarios/sweep/memory_shortage.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

namespace foreduce {
namespace {

/// What leaves more of a GPU's memory than this point does.
std::string needs_less(const Prediction& p) {
  std::vector<std::string> ways;
  if (p.recompute != Recompute::full) ways.emplace_back("recompute: yes");
  constexpr double kWorthNaming = 0.1;  // of a GPU's memory: less is rarely what is missing
  if (p.memory.working > p.gpu_memory * kWorthNaming) ways.emplace_back("fused_loss: yes");
  if (p.memory.buckets > p.gpu_memory * kWorthNaming)
    ways.emplace_back("allreduce: { gradient_as_bucket_view: yes }");
  if (p.batch_per_gpu > 1) ways.emplace_back("a smaller batch_per_gpu with accumulation");
  if (p.sharding.tensor > 1 && p.sharding.sequence == Sequence::whole)
    ways.emplace_back("sequence_parallel: yes");
  constexpr double kLongSequence = 16384;  // tokens, beyond which activations outweigh the state
  if (p.sharding.context == 1 && tokens_of(p.sample) >= kLongSequence && p.gpus > 1)
    ways.emplace_back("context_parallel");
  if (p.sharding.sharding != Sharding::zero3)
    ways.emplace_back(p.sharding.data_parallel() > 1 ? "sharding: zero3"
                      : p.gpus > 1 ? "sharding: zero3 among several copies of the model"
                                   : "sharding: zero3 on several GPUs");
  else if (p.sharding.tensor == 1 && p.gpus > p.nodes) ways.emplace_back("tensor_parallel");
  return ways.empty() ? "a GPU with more memory is needed"
                      : fmt::format("what needs less: {}", fmt::join(ways, ", "));
}

}  // namespace

std::string memory_shortage(const Prediction& p) {
  const MemoryBy& m = p.memory;
  if (m.state() + m.gathered > p.gpu_memory) {
    const std::string how = p.gpus == 1 ? "several GPUs can share them with sharding: zero3"
                            : p.sharding.sharding == Sharding::zero3
                                ? "more GPUs in a sharding group leave each less"
                            : p.sharding.data_parallel() == 1
                                ? "several copies of the model can share them with sharding: zero3"
                                : "sharding: zero3 shares them among GPUs";
    const std::string gathered =
        m.gathered.value > 0 ? ", gathered units " + to_text(m.gathered) : "";
    return fmt::format(
        "{} does not fit: weights, gradients and optimizer take {}{}, a GPU has {} ({}; "
        "workload.state says what a parameter takes)",
        p.model, to_text(m.state()), gathered, to_text(p.gpu_memory), how);
  }
  std::string besides;
  if (m.gathered.value > 0) besides += ", gathered units " + to_text(m.gathered);
  if (m.buckets.value > 0) besides += ", DDP's buckets " + to_text(m.buckets);
  if (m.working.value > 0) besides += ", the loss " + to_text(m.working);
  besides += ", CUDA and NCCL some " + to_text(training_constants().memory_outside);
  return fmt::format(
      "{} at batch {} does not fit: weights, gradients and optimizer take {}, activations at "
      "least {}{}, a GPU has {} ({})",
      p.model, p.batch_per_gpu, to_text(m.state()), to_text(m.activations), besides,
      to_text(p.gpu_memory), needs_less(p));
}

}  // namespace foreduce
