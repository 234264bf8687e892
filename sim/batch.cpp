#include "sim/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <thread>

#include "input/files.hpp"
#include "input/machine_memory.hpp"
#include "sim/child_process.hpp"
#include "sim/collective_json.hpp"
#include "sim/expected_cost.hpp"
#include "sim/fewer_nodes.hpp"
#include "sim/ring_laps.hpp"
#include "sim/simulator.hpp"
#include "sim/wrong_sum.hpp"

namespace foreduce {
namespace {

/// No estimated error is smaller: two slopes that happen to agree prove little. Where 0.13 % was
/// estimated, a full simulation differed by 0.96 % (double tree with LL128 on 64 p5), and by 1.05 %
/// on 37 p3dn. Half as many segments would often do, but not there: it would be 3.5 %.
constexpr double kLeastError = 0.015;
/// The same where chains lead over links that other messages use too, as a mesh's or a host's: of
/// 60 pipelines of NCCL on V100 five were more than 1.5 % off, 2 GiB on 12 p3dn 3.01 %, and one of
/// 820 segments 5 %.
constexpr double kLeastErrorWithoutSwitch = 0.035;
/// Of own trees in hundreds of segments, whose later ones are faster: 5.3 % on 28 p5 in 512.
constexpr double kLeastErrorOfOwnTrees = 0.06;

/// The estimated error of trees over many nodes is at least the first, because a level takes a few
/// per cent more or less on other numbers of nodes; an interval on so many nodes is several times
/// as wide. Above the second, trees are told from twice as many nodes.
constexpr double kLeastLevelsError = 0.03, kLevelsTolerance = 0.05;

/// A simulation may take a millisecond: a child does so many, one after the other.
constexpr std::size_t kTasksEach = 1024;

/// The result, or null where laps of a ring were to be alike and are not.
nlohmann::json simulate_segments(const Question& q, int segments, bool by_laps) {
  SimOptions options;
  options.sending = q.schedule.sending;
  const CollectiveCall call = call_of(q, segments);
  if (!by_laps || !has_equal_laps(call)) return to_json(simulate_here(call, options));
  const auto result = simulate_by_laps(call, options);
  return result ? to_json(*result) : nlohmann::json();
}

double least_error(const Question& q) {
  if (!q.schedule.nccl && q.schedule.algorithm->steady_nodes > 0) return kLeastErrorOfOwnTrees;
  const auto& nvlink = q.cluster->weakest().machine().nvlink;
  return nvlink && nvlink->kind == NvLinkKind::through_switch ? kLeastError
                                                              : kLeastErrorWithoutSwitch;
}

/// From so many segments on one more costs what the last one did. A tree of D levels over nodes has
/// up to 2·D times as many on their way as each of its connections may have; double trees of LL128
/// among 256 p5 were 5 % off where fewer counted.
int steady_segments(const Question& q) {
  const Algorithm& algorithm = *q.schedule.algorithm;
  if (algorithm.steady_nodes == 0 || !spans_all_nodes(q.groups, *q.cluster))
    return algorithm.steady_segments;
  const auto over = static_cast<unsigned>(std::max(1, q.cluster->nodes() - 1));
  constexpr double kMost = 1 << 20;  // a profile may allow any number
  const double under_way =
      2.0 * static_cast<int>(std::bit_width(over)) * std::ceil(q.schedule.sending.slots);
  return std::max(algorithm.steady_segments, static_cast<int>(std::min(kMost, under_way)));
}

/// Whether a whole simulation of a tree among one rank a node takes less than a second or so.
bool is_cheap(const Question& q) {
  constexpr double kMessages = 1 << 17;  // that a rank a node sends up
  return q.schedule.algorithm->steady_nodes > 0 && one_rank_a_node(q.groups, *q.cluster) &&
         static_cast<double>(q.schedule.plan.segments) * q.cluster->nodes() <= kMessages;
}

/// What the busiest link takes for each of so many elements.
Seconds busiest_link(const CollectiveResult& result, double elements) {
  Seconds most;
  for (const LinkLoad& load : result.loads)
    most = std::max(most, Bytes{load.bytes} / load.bandwidth);
  return most / elements;
}

int jobs_of(const BatchOptions& options) {
  return options.jobs > 0 ? options.jobs
                          : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

/// What simulations may take together: what the system itself needs is left.
Bytes memory_of_machine() {
  constexpr double kForSimulations = 0.8;
  return kForSimulations * machine_memory();
}

}  // namespace

/// A question that is being answered: how many segments are to be simulated, and what came of it.
struct Batch::Pipeline {
  std::size_t number = 0;
  bool by_laps = true;       // of a ring that has them, unless they turn out to differ
  std::vector<int> lengths;  // ascending; the whole pipeline alone, or three for an extrapolation
  std::map<int, CollectiveResult> known;  // by length
};

/// A question that is answered from those of fewer nodes.
struct Batch::Derived {
  std::size_t number = 0;
  int halvings = 0;                    // of the nodes, until those of the first of `fewer`
  std::array<std::size_t, 3> fewer{};  // questions
};

std::size_t Batch::ask(const Question& q, const std::optional<Alternative>& alternative) {
  const auto [at, fresh] = known_.try_emplace(key_of(q), questions_.size());
  const std::size_t number = at->second;
  if (fresh) questions_.push_back(q);
  if (!alternative) alternatives_.remove(number);
  else if (fresh) alternatives_.add(number, *alternative, family_of(q, *alternative), q.count);
  return number;
}

void Batch::run(const BatchOptions& options, const std::function<void()>& one_known) {
  cache_.emplace(options.cache);
  long_pipelines_ = options.long_pipelines;
  std::vector<Pipeline> waiting;
  const std::size_t before = outcomes_.size();
  outcomes_.resize(questions_.size());
  alternatives_.arrange();
  for (std::size_t n = 0; n < questions_.size(); ++n) {
    const bool needed_now = outcomes_[n].needless && !alternatives_.contains(n);
    if (needed_now) outcomes_[n] = {};
    if (needed_now || n >= before) waiting.push_back(pipeline_of(n));
  }
  if (options.check_sums) check_sums(waiting, Checked::all, options);
  take_cached(waiting);
  if (!options.check_sums) check_sums(waiting, Checked::not_ours, options);
  std::vector<Derived> derived = take_derived(waiting);
  refuse_too_large(waiting, options);
  if (waiting.size() < questions_.size() && one_known) one_known();
  while ((!waiting.empty() || !derived.empty()) && !(options.stop && options.stop())) {
    run_round(waiting, options, one_known);
    // What is left is simulated longer than was counted, on more nodes, or all laps of a ring are.
    const std::size_t left = waiting.size() + derived.size();
    finish_derived(derived, waiting);
    refuse_too_large(waiting, options);
    if (waiting.size() + derived.size() < left && one_known) one_known();
  }
}

Batch::Pipeline Batch::pipeline_of(std::size_t number) const {
  const Question& q = questions_[number];
  const int segments = q.schedule.plan.segments, steady = steady_segments(q);
  const bool extrapolates = long_pipelines_ == LongPipelines::extrapolate;
  // Three shorter lengths cost as much as 3.5 times the steady one: below four times that, the
  // whole pipeline is as cheap.
  const bool whole = segments <= 4 * steady || !extrapolates || q.beside || is_cheap(q);
  return {number,
          extrapolates,
          whole ? std::vector{segments} : std::vector{steady / 2, steady, 2 * steady},
          {}};
}

/// Takes the questions out of `waiting` that fewer nodes answer, and asks these instead.
std::vector<Batch::Derived> Batch::take_derived(std::vector<Pipeline>& waiting) {
  std::vector<Derived> derived;
  if (long_pipelines_ == LongPipelines::simulate_whole) return derived;
  std::erase_if(waiting, [&](const Pipeline& p) {
    const Question& q = questions_[p.number];
    const int times = halvings(call_of(q, q.schedule.plan.segments));
    if (times > 0) derived.push_back({p.number, times, {}});
    if (times > 0) alternatives_.remove(p.number);  // others have their questions in common
    return times > 0;
  });
  for (Derived& d : derived) ask_fewer_nodes(d, waiting);
  return derived;
}

void Batch::ask_fewer_nodes(Derived& derived, std::vector<Pipeline>& waiting) {
  Question fewer = questions_[derived.number];
  FewerNodes& clusters = fewer_nodes_[{fewer.cluster.get(), derived.halvings}];
  if (!clusters[0]) {
    clusters = with_fewer_nodes(*fewer.cluster, derived.halvings);
    // A retry has two of these clusters in common with the one before.
    if (const auto before = fewer_nodes_.find({fewer.cluster.get(), derived.halvings + 1});
        before != fewer_nodes_.end())
      std::copy_n(before->second.begin(), 2, clusters.begin() + 1);
  }
  std::vector<Pipeline> asked;
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    fewer.cluster = clusters[i];
    fewer.groups = among_nodes_of(fewer.groups, *clusters[i]);
    derived.fewer[i] = ask(fewer);
    asked.push_back(pipeline_of(derived.fewer[i]));
  }
  outcomes_.resize(questions_.size());
  take_cached(asked);
  for (Pipeline& p : asked)
    if (!outcomes_[p.number].known) waiting.push_back(std::move(p));
}

/// Answers the questions whose fewer nodes are known, or asks for more nodes.
void Batch::finish_derived(std::vector<Derived>& derived, std::vector<Pipeline>& waiting) {
  for (Derived& d : derived) {
    if (!all_known(d.fewer) || combine(d)) continue;
    if (--d.halvings > 0) ask_fewer_nodes(d, waiting);
    else waiting.push_back(pipeline_of(d.number));
  }
  std::erase_if(derived,
                [this](const Derived& d) { return d.halvings == 0 || outcomes_[d.number].known; });
}

/// False if the levels of these trees differ too much.
bool Batch::combine(const Derived& derived) {
  Outcome& out = outcomes_[derived.number];
  std::array<const CollectiveResult*, 3> results{};
  double error = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Outcome& fewer = outcomes_[derived.fewer[i]];
    if (!fewer.ok) {
      out.known = true;
      out.error = fewer.error;
      return true;
    }
    results[i] = &fewer.result;
    error = std::max(error, fewer.extrapolation_error);
  }
  ManyNodes many = on_many_nodes(results, derived.halvings);
  if (many.error > kLevelsTolerance) return false;
  out.known = out.ok = out.extrapolated = true;
  out.extrapolation_error = std::max({kLeastLevelsError, error, many.error});
  out.result = std::move(many.result);
  if (cache_->in_use())
    cache_->keep(cache_key(questions_[derived.number]),
                 {out.result, out.extrapolated, out.extrapolation_error});
  return true;
}

std::string Batch::cache_key(const Question& q) {
  const auto text = [this](const void* of, const auto& make) -> const std::string& {
    const auto [at, fresh] = texts_.try_emplace(of);
    if (fresh) at->second = sha1(make());
    return at->second;
  };
  const Profile* profile = q.schedule.sending.profile.get();
  return fmt::format("{}|{}",
                     key_of(q, text(q.cluster.get(), [&] { return q.cluster->text(); }),
                            profile ? text(profile, [&] { return text_of(*profile); }) : ""),
                     static_cast<int>(long_pipelines_));
}

bool Batch::take_cached(std::size_t number) {
  if (!cache_->in_use()) return false;
  auto answer = cache_->find(cache_key(questions_[number]));
  if (!answer) return false;
  Outcome& out = outcomes_[number];
  out.known = out.ok = out.from_disk = true;
  out.result = std::move(answer->result);
  out.result.wall_seconds = 0;
  out.extrapolated = answer->extrapolated;
  out.extrapolation_error = answer->extrapolation_error;
  return true;
}

/// What earlier runs answered leaves `waiting`, and what is needless by that.
void Batch::take_cached(std::vector<Pipeline>& waiting) {
  std::size_t before = 0;
  for (const Pipeline& p : waiting)
    if (!alternatives_.contains(p.number)) take_cached(p.number);
  do {  // what is known now may settle others
    before = waiting.size();
    std::erase_if(waiting, [this](const Pipeline& p) {
      if (alternatives_.contains(p.number)) readiness(p.number);
      return outcomes_[p.number].known;
    });
  } while (waiting.size() < before);
}

/// Of a question: its longest length to be simulated.
void Batch::refuse_too_large(std::vector<Pipeline>& waiting, const BatchOptions& options) {
  const Bytes most = options.max_memory.value > 0
                         ? options.max_memory
                         : memory_of_machine() / static_cast<double>(jobs_of(options));
  std::map<std::string, SizeNotice> known;  // as many messages, of any size
  for (const Pipeline& p : waiting) {
    const Question& q = questions_[p.number];
    const CollectiveCall call = call_of(q, p.lengths.back());
    if (p.by_laps && has_equal_laps(call)) continue;
    const auto [at, fresh] = known.try_emplace(messages_key(q, p.lengths.back()));
    if (fresh) at->second = size_notice(call, most);
    const SizeNotice& notice = at->second;
    if (!notice.long_one.empty() && options.warn) options.warn(notice.long_one);
    if (notice.too_large.empty()) continue;
    outcomes_[p.number].known = true;
    outcomes_[p.number].error = notice.too_large;
  }
  std::erase_if(waiting, [this](const Pipeline& p) { return outcomes_[p.number].known; });
}

/// Equal schedules of different sizes are checked once.
void Batch::check_sums(std::vector<Pipeline>& waiting, Checked which, const BatchOptions& options) {
  std::map<std::string, std::vector<std::size_t>> equal_checks;
  for (const Pipeline& p : waiting) {
    const Question& q = questions_[p.number];
    const Plan& plan = q.schedule.plan;
    if (which == Checked::not_ours && is_ours(*q.schedule.algorithm, plan)) continue;
    equal_checks[fmt::format("{}|{}|{}|{}|{}|{}|{}", static_cast<const void*>(q.cluster.get()),
                             identity_of(*q.schedule.algorithm, plan),
                             std::min(plan.segments, kCheckedSegments), plan.together,
                             plan.channels, q.groups.size, q.groups.stride)]
        .push_back(p.number);
  }
  std::vector<std::vector<std::size_t>> groups;
  std::vector<std::function<nlohmann::json()>> work;
  for (const auto& [key, numbers] : equal_checks) {
    groups.push_back(numbers);
    const Question& q = questions_[numbers.front()];
    work.emplace_back([&q] {
      return nlohmann::json(
          wrong_sum(*q.cluster, *q.schedule.algorithm, q.schedule.plan, q.groups));
    });
  }
  if (!work.empty()) load_simulator();
  run_in_children(work,
                  [&](std::size_t index, ChildResult child) {
                    const std::string wrong =
                        child.ok ? child.value.get<std::string>() : child.error;
                    for (const std::size_t number : groups[index])
                      if (!wrong.empty()) {
                        outcomes_[number].known = true;
                        outcomes_[number].error = wrong;
                      }
                  },
                  {jobs_of(options), 1, options.stop, nullptr, options.most_seconds});
  std::erase_if(waiting, [this](const Pipeline& p) { return outcomes_[p.number].known; });
}

/// Equal for questions and what these are alternatives to, where only the size differs.
std::string Batch::family_of(Question q, const Alternative& alternative) const {
  q.count = 0;
  q.schedule.plan.segments = 0;
  q.schedule.plan.last = Segments::kFull;
  return key_of(q) + questions_[alternative.to].schedule.sending.protocol;
}

/// Of an alternative only when what it depends on is known, so that equal questions have equal
/// answers. An earlier run's answer is taken then, and not before.
Readiness Batch::readiness(std::size_t number) {
  if (!alternatives_.contains(number)) return Readiness::ready;
  if (outcomes_[number].known) return Readiness::needless;
  const Readiness found = alternatives_.readiness(number, [this](std::size_t n) {
    const Outcome& out = outcomes_[n];
    return Alternatives::Answer{out.known, out.needless, out.ok ? out.result.time : Seconds{}};
  });
  if (found == Readiness::needless) outcomes_[number].known = outcomes_[number].needless = true;
  const bool answered = found == Readiness::ready && take_cached(number);
  return answered ? Readiness::needless : found;
}

/// Simulates every length that is not known yet; what is answered leaves `waiting`.
void Batch::run_round(std::vector<Pipeline>& waiting, const BatchOptions& options,
                      const std::function<void()>& one_known) {
  struct Task {
    Pipeline* pipeline;
    int length;
  };
  std::vector<Task> tasks;
  std::vector<std::function<nlohmann::json()>> work;
  // The longest first: of three on two processors it takes as long as the others together.
  for (Pipeline& p : waiting)
    for (auto at = p.lengths.rbegin(); at != p.lengths.rend(); ++at) {
      const int length = *at;
      if (p.known.contains(length)) continue;
      tasks.push_back({&p, length});
      work.emplace_back([this, &p, length] {
        return simulate_segments(questions_[p.number], length, p.by_laps);
      });
    }
  started_ += work.size();
  if (!work.empty()) load_simulator();
  const auto ready = [&](std::size_t index) {
    const std::size_t number = tasks[index].pipeline->number;
    const bool was_known = outcomes_[number].known;
    const Readiness task = readiness(number);
    if (task == Readiness::needless) --started_;
    if (outcomes_[number].known && !was_known && one_known) one_known();
    return task;
  };
  run_in_children(work,
                  [&](std::size_t index, ChildResult child) {
                    Pipeline& p = *tasks[index].pipeline;
                    Outcome& out = outcomes_[p.number];
                    if (options.progress) options.progress(++done_, started_);
                    if (child.ok && child.value.is_null()) {
                      p.by_laps = false;
                    } else if (child.ok) {
                      CollectiveResult& result = p.known[tasks[index].length] =
                          collective_from_json(child.value);
                      result.peak_rss_bytes = child.peak_rss_bytes;
                      if (p.known.size() == p.lengths.size() && !out.known) finish_or_lengthen(p);
                    } else if (!out.known) {
                      out.known = true;
                      out.error = child.error;
                    }
                    if (out.known && one_known) one_known();
                  },
                  {jobs_of(options), kTasksEach, options.stop, ready, options.most_seconds});
  std::erase_if(waiting, [this](const Pipeline& p) { return outcomes_[p.number].known; });
}

/// Answers a question whose lengths are all simulated, or makes it longer.
void Batch::finish_or_lengthen(Pipeline& p) {
  const Question& q = questions_[p.number];
  Outcome& out = outcomes_[p.number];
  const auto& [longest, last] = *p.known.rbegin();
  out.result = last;
  if (longest != q.schedule.plan.segments) {
    const auto elements = [&](int segments) { return static_cast<double>(shortened(q, segments)); };
    const int middle = longest / 2, shortest = longest / 4;
    // Of fewer elements than segments all lengths are alike, and tell no slope.
    if (elements(shortest) >= elements(middle) || elements(middle) >= elements(longest)) {
      p.lengths.push_back(q.schedule.plan.segments);
      return;
    }
    const double more = static_cast<double>(q.count) - elements(longest);
    const auto slope = [&](int a, int b) {
      return (p.known.at(b).time - p.known.at(a).time) / (elements(b) - elements(a));
    };
    const Seconds time = last.time + slope(middle, longest) * more;
    const double error =
        std::abs((slope(middle, longest) - slope(shortest, middle)).value) * more / time.value;
    // Where the first segment is on its way for longer than the others take, they cost nothing yet.
    const bool links_idle = slope(middle, longest) <
                            (1 - kSteadyStateTolerance) * busiest_link(last, elements(longest));
    if (error > kSteadyStateTolerance || links_idle) {
      const int twice =
          2 * longest < q.schedule.plan.segments ? 2 * longest : q.schedule.plan.segments;
      p.lengths.push_back(twice);
      return;
    }
    out.result.time = time;
    out.extrapolated = true;
    out.extrapolation_error = std::max(least_error(q), error);
    out.result.wall_seconds = 0;
    for (const auto& [length, result] : p.known) {
      out.result.wall_seconds += result.wall_seconds;
      out.result.peak_rss_bytes = std::max(out.result.peak_rss_bytes, result.peak_rss_bytes);
    }
  }
  if (p.by_laps && !q.cluster->homogeneous() && has_equal_laps(call_of(q, longest))) {
    out.extrapolated = true;
    out.extrapolation_error = std::max(kLeastLapsError, out.extrapolation_error);
  }
  out.known = true;
  out.ok = true;
  if (cache_->in_use())
    cache_->keep(cache_key(q), {out.result, out.extrapolated, out.extrapolation_error});
}

std::size_t Batch::in_place_of(std::size_t number) const {
  return outcomes_[number].needless ? alternatives_.stands_for(number) : number;
}

bool Batch::all_known(std::span<const std::size_t> numbers) const {
  return std::all_of(numbers.begin(), numbers.end(),
                     [this](std::size_t n) { return outcomes_[n].known; });
}

std::size_t Batch::fastest(std::span<const std::size_t> numbers) const {
  std::size_t best = 0;
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    const Outcome &a = outcomes_[numbers[i]], &b = outcomes_[numbers[best]];
    if (a.ok && (!b.ok || a.result.time < b.result.time)) best = i;
  }
  return best;
}

}  // namespace foreduce
