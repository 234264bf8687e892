#include "scenarios/sweep/estimate.hpp"

#include <cmath>
#include <map>

#include "models/nccl_constants.hpp"
#include "models/rank_layout.hpp"
#include "scenarios/sweep/sweep.hpp"

namespace foreduce {
namespace {

/// The candidates of one request; the fastest is its answer. Throws InputError where nothing can
/// run.
std::vector<Candidate> candidates_of(const CollectiveRequest& r,
                                     const std::shared_ptr<const Layout>& layout) {
  std::vector<Method> methods{r.method};
  if (r.method.kind == MethodKind::nccl && r.profile->protocols.empty()) {
    methods.clear();
    const Collective collective = r.method.collective;
    std::vector<NcclAlgorithm> tried{NcclAlgorithm::ring};
    if (collective == Collective::all_reduce)
      tried = {NcclAlgorithm::double_tree, NcclAlgorithm::ring};
    if (collective == Collective::all_to_all) tried = {NcclAlgorithm::pairwise};
    std::vector<std::string> names;
    for (const NcclAlgorithm a : tried) names.push_back(to_text(a));
    if (r.method.algorithm) names = {std::string(r.method.algorithm->name)};
    for (const std::string& name : names) methods.push_back(method_named(name, "", collective));
  }
  std::vector<Candidate> candidates;
  for (const Method& method : methods) {
    Candidate one{method, r.cluster, r.profile, layout, 0};
    const std::string why = one.unsupported();
    if (why.empty()) candidates.push_back(std::move(one));
    else if (methods.size() == 1) throw input_error(method.name() + " cannot run here: " + why);
  }
  return candidates;
}

CollectiveEstimate estimate_of(const CollectiveRequest& r, const std::vector<Candidate>& candidates,
                               std::span<const std::size_t> numbers, const Batch& batch) {
  CollectiveEstimate e;
  for (const std::size_t n : numbers)
    if (!batch[n].ok) e.error = batch[n].known ? batch[n].error : kInterrupted;
  if (!e.error.empty()) return e;
  const std::size_t best = batch.fastest(numbers);
  const Outcome& outcome = batch[numbers[best]];
  const Schedule& schedule = batch.question(numbers[best]).schedule;
  e.time = outcome.result.time;
  e.interval = candidates[best].interval(r.bytes, outcome);
  e.least = uncertainty(*r.profile, *r.cluster, r.bytes, RunBy::library, r.method.collective).least;
  e.run = {value_named<NcclAlgorithm>(schedule.algorithm->name).value(),
           value_named<NcclProtocol>(schedule.sending.protocol)};
  e.extrapolation_error = outcome.extrapolation_error;
  return e;
}

}  // namespace

std::vector<CollectiveEstimate> estimate_collectives(std::span<const CollectiveRequest> requests,
                                                     const BatchOptions& options) {
  Batch batch;
  std::vector<CollectiveEstimate> answers(requests.size());
  std::vector<std::vector<Candidate>> candidates(requests.size());
  std::vector<std::vector<std::size_t>> numbers(requests.size());
  std::map<const Cluster*, std::shared_ptr<const Layout>> layouts;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const CollectiveRequest& r = requests[i];
    auto& layout = layouts[r.cluster.get()];
    if (!layout) layout = std::make_shared<const Layout>(rank_layout(*r.cluster));
    const auto count = static_cast<std::size_t>(
        std::ceil(r.bytes.value / static_cast<double>(size_of(Type::f32))));
    try {
      candidates[i] = candidates_of(r, layout);
      for (const Candidate& c : candidates[i])
        numbers[i].push_back(batch.ask(c.question(count, Type::f32)));
    } catch (const InputError& e) {
      answers[i].error = words_of(e);
    }
  }
  batch.run(options);
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (answers[i].error.empty())
      answers[i] = estimate_of(requests[i], candidates[i], numbers[i], batch);
  return answers;
}

Method reported_method(std::optional<NcclAlgorithm> forced, Collective collective,
                       const std::string& version, const std::string& plugin) {
  Method method = method_named(forced ? to_text(*forced) : "nccl", "", collective);
  method.kind = MethodKind::nccl;
  method.nccl_release = nccl_release_of(version);
  method.nccl_buffer = nccl_buffer_with(plugin);
  method.nccl_reported = nccl_reported_with(plugin);
  return method;
}

}  // namespace foreduce
