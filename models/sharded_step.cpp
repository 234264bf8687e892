#include "models/sharded_step.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace foreduce {
namespace {

using Elements = std::size_t;
using TaskId = std::size_t;

/// One unit's forward or backward.
struct Slot {
  std::size_t unit = 0;
  bool backward = false;
};

/// What a task is for.
struct Purpose {
  Work work = Work::collective;
  std::size_t unit = 0;
};

/// Writes the step down as tasks.
class Builder {
 public:
  Builder(const ShardedStepInput& input, const CollectiveCosts& costs)
      : in_(input), plan_(input.plan), costs_(costs) {
    double all = 0;
    for (const ModelUnit& u : in_.units) all += u.share;
    share_ = all > 0 ? 1 / all : 0;
  }

  void build() {
    order_slots();
    for (int m = 0; m < in_.accumulation; ++m) micro_batch(m);
    add(Stream::compute, in_.optimizer, std::move(to_wait_for_), {Work::optimizer, 0});
    if (plan_.sharding != Sharding::zero1 && plan_.sharding != Sharding::zero2) return;
    const TaskId optimizer = last_compute_;
    for (const ModelUnit& u : in_.units) {
      if (u.elements > 0) collective(Stream::all_gather, trained(u), u, {optimizer});
      if (u.experts > 0 && plan_.expert_shards() > 1)
        collective(Stream::expert_all_gather, trained_experts(u), u, {optimizer});
    }
  }

  const std::vector<Task>& tasks() const { return tasks_; }
  std::vector<CollectiveUse> collectives() const { return uses_; }
  /// All tasks that take time, as they were played.
  std::vector<Activity> activities(const Timeline& line) const {
    std::vector<Activity> all;
    for (std::size_t t = 0; t < tasks_.size(); ++t) {
      if (tasks_[t].alone.value <= 0) continue;
      Activity a = activities_[t];
      a.unit = a.work == Work::optimizer ? "" : in_.units[a.index].name;
      a.start = line.start[t];
      a.end = line.end[t];
      all.push_back(std::move(a));
    }
    return all;
  }
  TaskId last_backward() const { return last_backward_; }

 private:
  /// Forward in order, the root last; then backward the other way round.
  void order_slots() {
    for (std::size_t u = 0; u < in_.units.size(); ++u)
      if (!in_.units[u].root) slots_.push_back({u, false});
    for (std::size_t u = 0; u < in_.units.size(); ++u)
      if (in_.units[u].root) slots_.push_back({u, false});
    const std::vector<Slot> forward = slots_;
    for (auto s = forward.rbegin(); s != forward.rend(); ++s) slots_.push_back({s->unit, true});
  }

  TaskId add(Stream stream, Seconds alone, std::vector<TaskId> after, Purpose purpose = {},
             Elements elements = 0) {
    tasks_.push_back({stream, alone, std::move(after), elements, queue_of(stream, plan_)});
    if (in_.recording == Recording::on)
      activities_.push_back({.stream = stream,
                             .work = purpose.work,
                             .micro_batch = micro_batch_,
                             .index = purpose.unit,
                             .elements = elements,
                             .alone = alone});
    if (stream == Stream::compute) last_compute_ = tasks_.size() - 1;
    return tasks_.size() - 1;
  }

  /// Gathers a unit's parameters, and its experts', for a slot.
  void gather(const ModelUnit& unit, TaskId after, std::vector<TaskId>& gathered) {
    const bool halved = plan_.gathered == Gathered::fp8 && !unit.root;
    // Half as many of two bytes.
    const auto in_wire_type = [halved](Elements all) { return halved ? (all + 1) / 2 : all; };
    if (unit.elements > 0)
      gathered.push_back(
          collective(Stream::all_gather, in_wire_type(unit.elements), unit, {after}));
    if (unit.experts > 0 && plan_.expert_shards() > 1)
      gathered.push_back(
          collective(Stream::expert_all_gather, in_wire_type(unit.experts), unit, {after}));
  }
  TaskId collective(Stream kind, Elements elements, const ModelUnit& unit,
                    std::vector<TaskId> after) {
    auto use = std::find_if(uses_.begin(), uses_.end(), [&](const CollectiveUse& u) {
      return u.kind == kind && u.elements == elements;
    });
    if (use == uses_.end()) use = uses_.insert(use, {kind, elements, 0});
    const Seconds takes = costs_.alone(kind, elements);
    ++use->count;
    use->time += takes;
    const auto index = static_cast<std::size_t>(&unit - in_.units.data());
    return add(kind, takes, std::move(after), {Work::collective, index}, elements);
  }

  bool sums_wait() const {
    return in_.sums == GradientSums::after_backward && plan_.sharding != Sharding::zero2 &&
           plan_.sharding != Sharding::zero3;
  }
  static Elements trained(const ModelUnit& unit) {
    return trained_elements(unit.elements, unit.trainable);
  }
  static Elements trained_experts(const ModelUnit& unit) {
    return trained_elements(unit.experts, unit.trainable);
  }
  const ModelUnit& unit_of(std::size_t slot) const { return in_.units[slots_[slot].unit]; }

  /// Whether a slot's parameters must be gathered for it.
  bool gathers(std::size_t slot) const {
    if (plan_.sharding != Sharding::zero3 || unit_of(slot).root) return false;
    if (!slots_[slot].backward) return true;
    std::size_t last = 0;  // forward's last unit but the root: it is needed again at once
    for (std::size_t s = 0; s < slots_.size() / 2; ++s)
      if (!unit_of(s).root) last = slots_[s].unit;
    return plan_.reshard == Reshard::after_forward && slots_[slot].unit != last;
  }

  void micro_batch(int m) {
    micro_batch_ = m;
    const bool sums =
        m == in_.accumulation - 1 || plan_.synchronised == Synchronised::every_micro_batch;
    const TaskId begin = add(Stream::compute, Seconds{0}, std::exchange(to_wait_for_, {}));
    gathered_.assign(slots_.size(), {});
    if (plan_.sharding == Sharding::zero3)
      for (const ModelUnit& u : in_.units)
        if (u.root) gather(u, begin, gathered_[0]);
    std::vector<TaskId> begun;  // of each slot
    std::size_t asked = 0;      // slots whose parameters are asked for
    const auto prefetch = static_cast<std::size_t>(plan_.prefetch);
    const auto gather_until = [&](std::size_t end, TaskId after) {
      for (; asked < std::min(end, slots_.size()); ++asked)
        if (gathers(asked)) gather(unit_of(asked), after, gathered_[asked]);
    };
    gather_until(prefetch, begin);
    scatters_.clear();
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      if (prefetch == 0) gather_until(s + 1, last_compute_);
      if (plan_.stages > 1 && (s == 0 || s == slots_.size() / 2)) receive(s);
      const TaskId start = add(Stream::compute, Seconds{0}, awaited(s));
      if (prefetch > 0) gather_until(s + prefetch + 1, start);
      compute(s);
      if (slots_[s].backward && sums && !sums_wait()) sum_gradients(s);
    }
    for (std::size_t s = 0; sums && sums_wait() && s < slots_.size(); ++s)
      if (slots_[s].backward) sum_gradients(s);
    last_backward_ = last_compute_;
    if (sums)
      for (const ModelUnit& u : in_.units)
        if (u.root) sum_gradients_of(u);
  }

  /// What comes from the stage before: where stages are cut into parts, for each of them. Of a
  /// divided sequence each tensor-parallel GPU sends its part (Megatron-LM).
  void receive(std::size_t slot) {
    const auto senders =
        static_cast<Elements>(plan_.sequence == Sequence::divided ? std::max(1, plan_.tensor) : 1);
    TaskId after = last_compute_;
    for (int part = 0; part < plan_.parts; ++part)
      after = collective(Stream::pipeline, (in_.block_output + senders - 1) / senders,
                         unit_of(slot), {after});
    gathered_[slot].push_back(after);
  }

  /// What a slot waits for besides the one before it.
  std::vector<TaskId> awaited(std::size_t slot) {
    std::vector<TaskId> after = gathered_[slot];
    if (travel_) after.push_back(*std::exchange(travel_, std::nullopt));
    // The reduce-scatter before the one that has just been handed over.
    if (plan_.sharding == Sharding::zero3 && scatters_.size() >= 2)
      after.push_back(scatters_[scatters_.size() - 2]);
    return after;
  }

  /// A collective of activations.
  struct Travel {
    Stream kind;
    Elements elements;
  };
  /// Keys and values, and in backward their gradients. Backward gathers for itself, and before that
  /// where it computes forward again.
  std::vector<Travel> context_travels(std::size_t slot) const {
    std::vector<Travel> all;
    const ModelUnit& unit = unit_of(slot);
    if (unit.root || plan_.context == 1) return all;
    const bool backward = slots_[slot].backward;
    const auto blocks = static_cast<std::size_t>(unit.blocks);
    all.assign(blocks * static_cast<std::size_t>(backward ? in_.passes_in_backward : 1),
               {Stream::context_all_gather, in_.keys_and_values});
    if (backward)
      all.insert(all.end(), blocks, {Stream::context_reduce_scatter, in_.keys_and_values});
    return all;
  }
  /// What a slot's activations travel for, in order: computing waits for each.
  std::vector<Travel> travels(std::size_t slot) const {
    const ModelUnit& unit = unit_of(slot);
    std::vector<Travel> all;
    if (unit.root) return all;
    const int passes = slots_[slot].backward ? in_.passes_in_backward : 1;
    const auto add = [&all, passes](int times, Travel travel) {
      all.insert(all.end(), static_cast<std::size_t>(passes * times), travel);
    };
    const int dense = unit.blocks - unit.expert_blocks;
    if (plan_.tensor > 1) add(unit.blocks + dense, {Stream::tensor, in_.block_output});
    if (plan_.expert > 1) add(2 * unit.expert_blocks, {Stream::exchange, in_.exchanged});
    if (plan_.tensor > plan_.expert_span)
      add(unit.expert_blocks, {Stream::tensor, in_.experts_output});
    return all;
  }

  /// A slot's arithmetic, in parts between its activations' travels.
  void compute(std::size_t slot) {
    const bool backward = slots_[slot].backward;
    Seconds takes =
        (backward ? in_.backward : in_.forward) * (in_.slowest * unit_of(slot).share * share_);
    const Purpose purpose{backward ? Work::backward : Work::forward, slots_[slot].unit};
    std::vector<Travel> all = context_travels(slot);
    if (!all.empty() && plan_.context_communication == ContextCommunication::ring) {
      compute_beside(std::exchange(all, {}), unit_of(slot), takes * in_.attention, purpose);
      takes = takes * (1 - in_.attention);
    }
    const std::vector<Travel> others = travels(slot);
    all.insert(all.end(), others.begin(), others.end());
    if (all.empty()) {
      add(Stream::compute, takes, awaited_travel(), purpose);
      return;
    }
    for (const Travel& travel : all) {
      const TaskId part =
          add(Stream::compute, takes / static_cast<double>(all.size()), awaited_travel(), purpose);
      travel_ = collective(travel.kind, travel.elements, unit_of(slot), {part});
    }
  }

  /// The last travel that computing has not waited for yet.
  std::vector<TaskId> awaited_travel() {
    return travel_ ? std::vector{*std::exchange(travel_, std::nullopt)} : std::vector<TaskId>{};
  }

  /// Computing, and travels beside it that begin with it; what is computed next waits for both.
  void compute_beside(const std::vector<Travel>& travels, const ModelUnit& unit, Seconds takes,
                      const Purpose& purpose) {
    const TaskId begin = add(Stream::compute, Seconds{0}, awaited_travel());
    add(Stream::compute, takes, {}, purpose);
    for (const Travel& travel : travels)
      travel_ = collective(travel.kind, travel.elements, unit, {begin});
  }

  void sum_gradients(std::size_t slot) {
    if (!unit_of(slot).root) sum_gradients_of(unit_of(slot));
  }

  /// Sums what every GPU has of a unit, and its experts' among the GPUs that have the same.
  void sum_gradients_of(const ModelUnit& unit) {
    const TaskId ready = travel_.value_or(last_compute_);
    if (unit.elements > 0)
      sum_among(trained(unit), unit, ready,
                {Stream::reduce_scatter, Stream::all_reduce, plan_.sharding != Sharding::none,
                 plan_.shard_ranks, plan_.replicas});
    if (unit.experts > 0)
      sum_among(
          trained_experts(unit), unit, ready,
          {Stream::expert_reduce_scatter, Stream::expert_all_reduce, plan_.expert_shards() > 1,
           plan_.expert_shards(), group_of(Stream::expert_all_reduce, plan_).ranks});
    if (last_scatter_) scatters_.push_back(*std::exchange(last_scatter_, std::nullopt));
  }

  /// In which groups gradients are summed.
  struct Sum {
    Stream scatter, reduce;
    bool scatters;
    int shards, replicas;
  };
  void sum_among(Elements elements, const ModelUnit& unit, TaskId ready, const Sum& among) {
    TaskId sum = ready;
    const auto shards = static_cast<Elements>(among.shards);
    if (among.scatters) {
      sum = collective(among.scatter, elements, unit, {sum});
      last_scatter_ = sum;
    }
    if (among.replicas > 1)
      sum = collective(among.reduce, (elements + shards - 1) / shards, unit, {sum});
    to_wait_for_.push_back(sum);
  }

  const ShardedStepInput& in_;
  const ShardingPlan& plan_;
  const CollectiveCosts& costs_;
  double share_ = 0;
  std::vector<Slot> slots_;
  std::vector<Task> tasks_;
  std::vector<Activity> activities_;  // of each task, if recorded
  int micro_batch_ = 0;
  std::vector<CollectiveUse> uses_;
  std::vector<TaskId> to_wait_for_;
  std::vector<TaskId> scatters_;  // the last of each unit
  std::optional<TaskId> last_scatter_;
  std::vector<std::vector<TaskId>> gathered_;  // by slot
  std::optional<TaskId> travel_;               // of activations, that the next computing waits for
  TaskId last_compute_ = 0, last_backward_ = 0;
};

/// A micro-batch passes all other stages before this one begins and after it ends. Of stages in
/// parts a part of each is passed (Narayanan et al., SC21, section 2.2.2).
Seconds bubble_of(const ShardedStepInput& in, const std::vector<CollectiveUse>& uses,
                  const Timeline& line) {
  if (in.plan.stages == 1) return Seconds{0};
  Seconds one = (in.forward + in.backward) * in.slowest;
  for (const CollectiveUse& use : uses)
    if (computing_waits(use.kind, in.plan)) one += use.time / in.accumulation;
  for (const Stream kind : {Stream::context_all_gather, Stream::context_reduce_scatter})
    if (!computing_waits(kind, in.plan))
      one += line.delayed[static_cast<std::size_t>(kind)] / in.accumulation;
  return one * (in.other_stages / in.plan.parts);
}

}  // namespace

RankGroup group_of(Stream kind, const ShardingPlan& plan) {
  const int state = plan.tensor * plan.shard_ranks, experts = plan.expert_parts();
  switch (kind) {
    case Stream::tensor: return {plan.tensor, 1};
    case Stream::context_all_gather:
    case Stream::context_reduce_scatter: return {plan.context, plan.tensor};
    case Stream::exchange: return {plan.expert, plan.tensor / plan.expert_span};
    case Stream::expert_all_gather:
    case Stream::expert_reduce_scatter: return {plan.expert_shards(), experts};
    case Stream::expert_all_reduce:
      return plan.shard_ranks > 1
                 ? RankGroup{plan.replicas, state}
                 : RankGroup{plan.replicas * plan.expert_span / plan.expert, experts};
    case Stream::all_reduce: return {plan.replicas, state};
    case Stream::pipeline: return {std::min(2, plan.stages), state * plan.replicas};
    case Stream::all_gather:
    case Stream::reduce_scatter:
    case Stream::compute: break;
  }
  return {plan.shard_ranks, plan.tensor};
}

Stream queue_of(Stream kind, const ShardingPlan& plan) {
  switch (kind) {
    case Stream::expert_all_gather: return Stream::all_gather;
    case Stream::expert_all_reduce: return Stream::all_reduce;
    case Stream::context_reduce_scatter: return Stream::context_all_gather;
    case Stream::reduce_scatter:
    case Stream::expert_reduce_scatter:
      return plan.communicators == Communicators::shared ? Stream::all_gather
                                                         : Stream::reduce_scatter;
    default: return kind;
  }
}

bool carries_activations(Stream kind) {
  return kind == Stream::tensor || kind == Stream::pipeline || kind == Stream::exchange ||
         kind == Stream::context_all_gather || kind == Stream::context_reduce_scatter;
}

bool computing_waits(Stream kind, const ShardingPlan& plan) {
  const bool of_context =
      kind == Stream::context_all_gather || kind == Stream::context_reduce_scatter;
  return carries_activations(kind) &&
         !(of_context && plan.context_communication == ContextCommunication::ring);
}

bool carries_gradients(Stream kind) {
  return kind == Stream::reduce_scatter || kind == Stream::all_reduce ||
         kind == Stream::expert_reduce_scatter || kind == Stream::expert_all_reduce;
}

Bytes sent_bytes(Stream kind, Bytes buffer, int ranks) {
  if (kind == Stream::pipeline) return buffer;
  const bool half =
      kind != Stream::all_reduce && kind != Stream::tensor && kind != Stream::expert_all_reduce;
  const double part = static_cast<double>(ranks - 1) / ranks;
  return buffer * (half ? part : 2 * part);
}

namespace {

/// Collectives that take no time.
const CollectiveCosts& free_of_costs() {
  static const CollectiveCosts free{[](Stream, Elements) { return Seconds{0}; }, {}};
  return free;
}

}  // namespace

std::vector<Task> tasks_of(const ShardedStepInput& input) {
  Builder builder(input, free_of_costs());
  builder.build();
  return builder.tasks();
}

std::vector<CollectiveUse> collectives_of(const ShardedStepInput& input) {
  Builder builder(input, free_of_costs());
  builder.build();
  return builder.collectives();
}

Step play_sharded_step(const ShardedStepInput& in, const CollectiveCosts& costs) {
  Builder builder(in, costs);
  builder.build();
  const Timeline line = play(builder.tasks(), costs.speeds);
  Step step;
  step.compute = (in.forward + in.backward) * in.accumulation + in.optimizer;
  step.waiting = (in.forward + in.backward) * (in.accumulation * (in.slowest - 1));
  step.collectives = builder.collectives();
  step.bubble = bubble_of(in, step.collectives, line);
  step.overhead = in.overhead;
  step.total = line.total + step.bubble + step.overhead;
  step.backward_end = line.end[builder.last_backward()] + step.bubble;
  step.exposed_communication =
      step.total - step.compute - step.waiting - step.bubble - step.overhead;
  std::array<Seconds, kStreams> all{};
  for (const CollectiveUse& use : step.collectives) {
    all[static_cast<std::size_t>(use.kind)] += use.time;
    step.communication += use.time;
  }
  for (CollectiveUse& use : step.collectives)  // of a kind in proportion to what each size takes
    if (const auto kind = static_cast<std::size_t>(use.kind); all[kind].value > 0)
      use.exposed = line.delayed[kind] * (use.time / all[kind]);
  if (in.recording == Recording::on) step.activities = builder.activities(line);
  wait_for_input(step, in.input);
  return step;
}

}  // namespace foreduce
