#include "sim/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>
#include <tuple>

#include "models/rank_layout.hpp"
#include "models/nccl_schedule.hpp"
#include "models/uncertainty.hpp"
#include "sim/child_process.hpp"

namespace foreduce {
namespace {

/// From so many chunks on a pipeline is in its steady state: one more costs what the last one did. Twice as many are simulated, and
/// longer ones follow in a straight line. NVLS is that early: a chunk is on the way to all GPUs at once, and between nodes up and
/// down a tree.
double steady_from(const std::string& algorithm) { return algorithm.starts_with("nvls") ? 16 : 48; }

/// One simulation to do.
struct Job {
  const Cluster* cluster = nullptr;
  std::shared_ptr<const Profile> profile;
  std::string algorithm, protocol;
  int segments = 0;
  double bytes = 0, channels_each = 1, messages_each = 1, slots = 0;
  bool separate_halves = false;

  auto key() const {
    return std::tuple(cluster, profile.get(), algorithm, protocol, segments, bytes, channels_each, messages_each, slots,
                      separate_halves);
  }
  double run() const {
    SimOptions options;
    options.sending = {profile, protocol, channels_each, messages_each, slots, separate_halves};
    Plan plan;
    plan.segments = segments;
    plan.channels = 0;
    constexpr Type type = Type::f32;
    const auto count = static_cast<std::size_t>(std::ceil(bytes / static_cast<double>(size_of(type))));
    return simulate_here({*cluster, *find_algorithm(algorithm), plan, count, type, Op::sum}, options).time.value;
  }
};

/// What one algorithm and protocol need to be simulated, and the line through the results.
struct Case {
  std::string algorithm, protocol;
  double at = 0, low = 0, high = 0;  // bytes wanted; bytes simulated (high = 0: low alone)
  std::size_t low_job = 0, high_job = 0;

  double time(const std::vector<double>& times) const {
    if (high == 0) return times[low_job];
    return times[high_job] + (times[high_job] - times[low_job]) / (high - low) * (at - high);
  }
};

class Planner {
 public:
  Case plan(const Question& q, const Layout& layout, const std::string& algorithm) {
    const AsNccl as = as_nccl(*q.cluster, layout, q.profile, q.bytes, algorithm);
    Job job{q.cluster.get(),
            q.profile,
            std::string(as.algorithm->name),
            as.sending.protocol,
            as.plan.segments,
            q.bytes.value,
            as.sending.channels_each,
            as.sending.messages_each,
            as.sending.slots,
            as.sending.separate_halves};
    Case made{job.algorithm, job.protocol, q.bytes.value};
    const double steady = steady_from(job.algorithm);
    if (as.plan.segments <= 2 * steady) {
      made.low = q.bytes.value;
      made.low_job = add(job);
      return made;
    }
    for (const double chunks : {steady, 2 * steady}) {
      job.segments = static_cast<int>(chunks);
      job.bytes = std::round(q.bytes.value / as.plan.segments * chunks);
      (chunks == steady ? made.low : made.high) = job.bytes;
      (chunks == steady ? made.low_job : made.high_job) = add(job);
    }
    return made;
  }
  /// What NCCL does not know: as the algorithm itself would run.
  Case plan_ours(const Question& q, const Layout& layout, const std::string& algorithm) {
    const Sending sending = as_ours(layout, q.profile);
    Job job{q.cluster.get(), q.profile, algorithm, sending.protocol, 0, q.bytes.value, sending.channels_each, 1};
    return {algorithm, sending.protocol, q.bytes.value, q.bytes.value, 0, add(job), 0};
  }
  const std::vector<Job>& jobs() const { return jobs_; }

 private:
  std::size_t add(const Job& job) {
    const auto [at, fresh] = known_.try_emplace(job.key(), jobs_.size());
    if (fresh) jobs_.push_back(job);
    return at->second;
  }
  std::vector<Job> jobs_;
  std::map<decltype(Job().key()), std::size_t> known_;
};

}  // namespace

std::vector<Expected> expected_all_reduces(std::span<const Question> questions, int jobs) {
  Planner planner;
  std::vector<Expected> answers(questions.size());
  std::vector<std::vector<Case>> cases(questions.size());
  std::map<const Cluster*, Layout> layouts;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const Question& q = questions[i];
    const auto known = layouts.find(q.cluster.get());
    const Layout& layout =
        known != layouts.end() ? known->second : layouts.emplace(q.cluster.get(), rank_layout(*q.cluster)).first->second;
    const bool as_nccl = !q.profile->protocols.empty();
    const auto add = [&](const std::string& algorithm) {
      if (as_nccl && (algorithm == "ring" || algorithm == "double-tree" || algorithm.starts_with("nvls")))
        cases[i].push_back(planner.plan(q, layout, algorithm));
      else cases[i].push_back(planner.plan_ours(q, layout, algorithm));
    };
    try {
      if (q.algorithm == "nccl" && as_nccl) {
        cases[i].push_back(planner.plan(q, layout, ""));
      } else if (q.algorithm == "best" || q.algorithm == "nccl") {  // a profile without protocols: NCCL's own two
        for (const Algorithm* a : algorithms())
          if (!unsupported_reason(*a, layout, Plan{}) && (q.algorithm == "best" || a->name == "ring" || a->name == "double-tree"))
            add(std::string(a->name));
      } else {
        const Algorithm* a = find_algorithm(q.algorithm);
        if (!a) throw input_error(fmt::format("there is no algorithm called '{}'", q.algorithm));
        if (const auto why = unsupported_reason(*a, layout, Plan{}))
          throw input_error(fmt::format("{} cannot run here: {}", q.algorithm, *why));
        add(q.algorithm);
      }
    } catch (const InputError& e) {
      answers[i].error = e.what();
    }
  }

  std::vector<std::function<nlohmann::json()>> work;
  for (const Job& job : planner.jobs()) work.emplace_back([&job] { return nlohmann::json(job.run()); });
  std::vector<double> times(work.size());
  std::vector<std::string> errors(work.size());
  if (jobs == 0) jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  run_in_children(work, jobs, [&](std::size_t index, ChildResult outcome) {
    if (outcome.ok) times[index] = outcome.value.get<double>();
    else errors[index] = outcome.error;
  });

  for (std::size_t i = 0; i < questions.size(); ++i) {
    Expected& answer = answers[i];
    for (const Case& c : cases[i]) {
      for (const std::size_t job : {c.low_job, c.high > 0 ? c.high_job : c.low_job})
        if (!errors[job].empty()) answer.error = errors[job];
      const double time = c.time(times);
      if (!answer.algorithm.empty() && answer.time.value <= time) continue;
      answer.time = Seconds{time};
      answer.algorithm = c.algorithm;
      answer.protocol = c.protocol;
    }
    if (!answer.error.empty()) continue;
    const Uncertainty u = uncertainty(*questions[i].profile, *questions[i].cluster, questions[i].bytes, false);
    answer.low = u.low(answer.time);
    answer.high = u.high(answer.time);
    answer.least = u.least;
    answer.extrapolated = u.extrapolated;
    answer.why = u.why;
  }
  return answers;
}

Expected expected_all_reduce(const Cluster& cluster, const Profile& profile, Bytes bytes, const std::string& algorithm) {
  const auto borrow = [](const auto& object) {
    return std::shared_ptr<const std::decay_t<decltype(object)>>(std::shared_ptr<const void>(), &object);
  };
  const Question question{borrow(cluster), borrow(profile), bytes, algorithm};
  Expected answer = expected_all_reduces(std::span(&question, 1), 1)[0];
  if (!answer.error.empty()) throw input_error(answer.error);
  return answer;
}

}  // namespace foreduce
