#include "scenarios/validation/own_replays.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>

#include "input/files.hpp"
#include "scenarios/sweep/cases.hpp"
#include "scenarios/sweep/step_collectives.hpp"

namespace foreduce {
namespace {

using Json = nlohmann::json;

/// Takes a row to pieces; everything is checked, since a person may have touched it.
class ReplayReader {
 public:
  ReplayReader(const Json& row, int ranks, const std::string& file)
      : row_(row), step_(row.at("step")), ranks_(ranks), file_(file) {}

  UserReplay read() const {
    UserReplay r;
    r.algorithm = row_.at("algorithm");
    r.inner = row_.at("inner");
    r.workload = row_.at("workload");
    r.segments = static_cast<int>(number(row_, "segments", 0, 4000));
    r.type = type_named(row_.at("dtype"));
    r.measured = number(row_, "median_s", 1e-9, 1e9);
    r.whole.forward = Seconds{number(row_, "forward_s", 0, 1e9)};
    r.whole.backward = Seconds{number(row_, "backward_s", 0, 1e9)};
    r.plan.sharding = sharding_named(step_.at("sharding"));
    if (r.plan.is_ddp()) {
      need_algorithm(r, Stream::all_reduce);
      for (const Json& b : step_.at("buckets"))
        r.whole.buckets.push_back({elements(b), number(b, "ready", 0, 1)});
      return r;
    }
    r.plan.shard_ranks = static_cast<int>(number(step_, "shard_ranks", 2, ranks_));
    r.plan.replicas = static_cast<int>(number(step_, "replicas", 1, ranks_));
    if (r.plan.shard_ranks * r.plan.replicas != ranks_)
      throw bad("shard_ranks x replicas are not all ranks");
    r.plan.prefetch = static_cast<int>(number(step_, "prefetch", 0, 1000));
    r.plan.reshard = step_.at("reshard_after_forward").get<bool>() ? Reshard::after_forward
                                                                   : Reshard::after_backward;
    // Runs of before there was a choice had a communicator each.
    r.plan.communicators = step_.value("communicators", "separate") == "shared"
                               ? Communicators::shared
                               : Communicators::separate;
    r.plan.synchronised = Synchronised::every_micro_batch;
    r.sharded.forward = r.whole.forward;
    r.sharded.backward = r.whole.backward;
    r.sharded.plan = r.plan;
    for (const Json& u : step_.at("units"))
      r.sharded.units.push_back(
          {u.at("name"), elements(u), number(u, "share", 0, 1), u.at("root").get<bool>()});
    for (const CollectiveUse& use : collectives_of(r.sharded)) need_algorithm(r, use.kind);
    return r;
  }

 private:
  InputError bad(const std::string& why) const {
    return file_error(file_, fmt::format("a replayed step: {}", why),
                      "the JSON of foreduce run --workload");
  }
  double number(const Json& of, const char* key, double least, double most) const {
    const double value = of.at(key).get<double>();
    if (!(value >= least && value <= most))
      throw bad(fmt::format("{} is from {:g} to {:g}", key, least, most));
    return value;
  }
  std::size_t elements(const Json& of) const {
    return static_cast<std::size_t>(number(of, "elements", 0, std::ldexp(1.0, 40)));
  }
  void need_algorithm(const UserReplay& r, Stream kind) const {
    if (!find_algorithm(r.algorithm, collective_of(kind)))
      throw bad(fmt::format("there is no algorithm called '{}' for {}", r.algorithm,
                            title_of(collective_of(kind))));
  }

  const Json& row_;
  const Json& step_;
  int ranks_;
  const std::string& file_;
};

/// One replay's questions, and its step once they are answered.
struct AskedReplay {
  std::map<std::size_t, std::size_t> buckets;  // the question of an all-reduce by its elements
  std::optional<StepCollectives> collectives;

  double step(const UserReplay& r, const Batch& batch) const {
    const auto answer = [&](std::size_t number) {
      if (!batch[number].ok) throw TransportError(batch[number].error);
      return batch[number].result.time;
    };
    if (!collectives)
      return play_step(r.whole, [&](std::size_t n) { return answer(buckets.at(n)); }).total.value;
    for (const std::size_t number : collectives->questions()) answer(number);
    return play_sharded_step(r.sharded, collectives->costs(batch, for_all_streams(1),
                                                           StepCollectives::Bound::usual))
        .total.value;
  }
};

}  // namespace

UserReplay own_replay(const Json& row, int ranks, const std::string& file) {
  return ReplayReader(row, ranks, file).read();
}

void predict_replays(std::vector<UserReplay>& replays, const Scenario& scenario,
                     const std::string& profile, const BatchOptions& options) {
  Batch batch;
  Scenario named = scenario;
  named.file = "./scenario";  // so that a profile's file is sought from here
  named.allreduce.profile = {profile};
  QuestionHash hash(scenario.hash);
  Clusters clusters(scenario, hash);
  TransportProfiles profiles(named, hash);
  const SweepContext context{clusters, profiles, batch, 1};
  const ClusterCase& cluster = clusters.cases().at(0);
  std::vector<AskedReplay> asked;
  for (const UserReplay& r : replays) {
    const Collective first = r.plan.is_ddp() ? Collective::all_reduce : Collective::all_gather;
    Method method = method_named(r.algorithm, "", first);
    if (method.algorithm->takes_inner) method.inner = r.inner;
    method.segments = r.segments;
    method.profile = profile;
    AskedReplay& one = asked.emplace_back();
    if (!r.plan.is_ddp()) {
      one.collectives.emplace(r.sharded, method, StepCollectives::Types{r.type, r.type}, cluster,
                              context);
      continue;
    }
    const Candidate candidate = candidates_of(method, cluster, context).front();
    for (const Bucket& b : r.whole.buckets)
      one.buckets[b.elements] = batch.ask(candidate.question(b.elements, r.type));
  }
  batch.run(options);
  for (std::size_t i = 0; i < replays.size(); ++i)
    replays[i].predicted = asked[i].step(replays[i], batch);
}

}  // namespace foreduce
