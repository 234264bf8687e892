#include "models/sharding.hpp"

#include <fmt/format.h>

#include "input/counted.hpp"
#include "input/problem.hpp"

namespace foreduce {
namespace {

const std::vector<std::pair<std::string, Sharding>>& words() {
  static const std::vector<std::pair<std::string, Sharding>> all = {
      {"none", Sharding::none},   {"zero1", Sharding::zero1}, {"zero2", Sharding::zero2},
      {"zero3", Sharding::zero3}, {"ddp", Sharding::none},    {"fsdp", Sharding::zero3},
      {"full", Sharding::zero3}};
  return all;
}

}  // namespace

const char* name_of(Sharding sharding) {
  switch (sharding) {
    case Sharding::none: return "none";
    case Sharding::zero1: return "zero1";
    case Sharding::zero2: return "zero2";
    case Sharding::zero3: break;
  }
  return "zero3";
}

const std::vector<std::string>& sharding_words() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names;
    for (const auto& [word, sharding] : words()) names.push_back(word);
    return names;
  }();
  return all;
}

Sharding sharding_named(const std::string& name) {
  for (const auto& [word, sharding] : words())
    if (word == name) return sharding;
  throw input_error(fmt::format("there is no sharding called '{}'", name),
                    suggest(name, sharding_words()));
}

ShardingPlan divide(int gpus, Sharding sharding, int hybrid, int tensor, int stages, int expert,
                    int context) {
  ShardingPlan plan;
  const std::int64_t model = std::int64_t{tensor} * stages;
  if (gpus % model != 0)
    throw key_error(
        "pipeline",
        fmt::format("{} GPUs cannot be divided into groups of {} (tensor_parallel x pipeline)",
                    gpus, model));
  const int data_parallel = static_cast<int>(gpus / model);
  if (data_parallel % context != 0)
    throw key_error(
        "context_parallel",
        fmt::format("{} that {} the same parameters cannot be divided into groups of "
                    "{} that share sequences",
                    counted(data_parallel, "GPU"), data_parallel == 1 ? "has" : "have", context));
  plan.tensor = tensor;
  plan.context = context;
  plan.stages = stages;
  plan.shard_ranks = sharding == Sharding::none ? 1 : hybrid > 0 ? hybrid : data_parallel;
  if (data_parallel % plan.shard_ranks != 0)
    throw key_error("hybrid",
                    fmt::format("{} cannot be divided into sharding groups of {}",
                                counted(data_parallel, "data-parallel GPU"), plan.shard_ranks));
  plan.replicas = data_parallel / plan.shard_ranks;
  plan.sharding = plan.shard_ranks > 1 ? sharding : Sharding::none;
  plan.expert = expert;
  const bool sharded = plan.shard_ranks > 1;
  const int among = sharded ? plan.shard_ranks : data_parallel;
  if (among % expert != 0 && among * tensor % expert == 0 && expert % tensor == 0)
    plan.expert_span = tensor;
  else if (among % expert != 0)
    throw key_error(
        "expert_parallel",
        fmt::format("{} of {} cannot be divided into groups of {} that share experts",
                    sharded ? "a sharding group" : "the data-parallel group", counted(among, "GPU"),
                    expert),
        among * tensor % expert == 0
            ? fmt::format(
                  "groups that span tensor-parallel GPUs hold all of them: a multiple of {}",
                  tensor)
            : "");
  return plan;
}

}  // namespace foreduce
