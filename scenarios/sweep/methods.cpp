#include "scenarios/sweep/methods.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "input/counted.hpp"
#include "models/nccl_constants.hpp"
#include "models/smddp.hpp"

namespace foreduce {

namespace {

std::string nccl_name(const Method& m) {
  std::string name = m.nccl_release.empty() ? "nccl" : "nccl " + m.nccl_release;
  if (m.algorithm)
    if (const NcclAlgorithmNames* names = nccl_names_of(m.algorithm->name))
      name += fmt::format(" {}", names->variable);
  if (m.protocol) name += " " + to_text(*m.protocol);
  if (m.nccl_channels > 0) name += " " + counted(m.nccl_channels, "channel");
  if (m.nccl_buffer.value > 0) name += fmt::format(" {} buffers", to_text(m.nccl_buffer));
  return name;
}

/// An algorithm that NCCL is forced to. A step may have it for other collectives alone, as PAT.
const Algorithm* forced_algorithm(NcclAlgorithm forced, Collective collective, MethodUse use) {
  const std::string name = to_text(forced);
  const Algorithm* found = find_algorithm(name, collective);
  if (!found && use == MethodUse::step)
    for (const Collective other : collectives_of(name)) found = find_algorithm(name, other);
  return found;
}

/// NCCL with everything that is forced, in all combinations.
std::vector<Method> nccl_methods(const Method& nccl, const NcclSpec& spec, MethodUse use) {
  const auto or_free = [](const auto& axis, auto free) {
    std::vector<decltype(free)> values(axis.values.begin(), axis.values.end());
    if (values.empty()) values.push_back(free);
    return values;
  };
  std::vector<Method> methods;
  for (const std::string& release : or_free(spec.version, std::string()))
    for (const std::string& algo : or_free(spec.algo, std::string()))
      for (const auto proto : or_free(spec.proto, std::optional<NcclProtocol>()))
        for (const int channels : or_free(spec.channels, 0))
          for (const Bytes buffer : or_free(spec.buffsize, Bytes{})) {
            Method m = nccl;
            if (const auto forced = nccl_algorithm_forced(algo))
              m.algorithm = forced_algorithm(*forced, m.collective, use);
            if (!algo.empty() && !m.algorithm)
              throw input_error(fmt::format("NCCL has no {} by {}", title_of(m.collective), algo));
            m.protocol = proto;
            m.nccl_channels = channels;
            m.nccl_release = release;
            m.nccl_buffer = buffer;
            methods.push_back(m);
          }
  return methods;
}

}  // namespace

std::string Method::name() const {
  switch (kind) {
    case MethodKind::nccl: return nccl_name(*this);
    case MethodKind::smddp: return "smddp";
    case MethodKind::best: return "best";
    case MethodKind::ours: break;
  }
  return std::string(algorithm->name) + (protocol ? " " + to_text(*protocol) : "");
}

std::vector<std::string> method_names(Collective collective) {
  std::vector<std::string> names{"nccl", "smddp", "best"};
  for (const Algorithm* a : algorithms(collective)) names.emplace_back(a->name);
  return names;
}

std::string why_by_name_only(const Algorithm& algorithm, const Cluster& cluster) {
  // Minutes among 2,048 GPUs of which one node has slow NICs; rings and trees take seconds.
  constexpr int kMostUnlike = 512;
  const int gpus = cluster.gpus();
  if (!cluster.homogeneous() && gpus > kMostUnlike &&
      (algorithm.takes_inner || algorithm.uses_servers))
    return fmt::format(
        "nodes differ, so none of its messages among more than {} GPUs stands for others, and to "
        "simulate all takes long; ask for it by name",
        kMostUnlike);
  if (algorithm.compared_up_to == 0)
    return "it takes long to simulate, for no rank stands for others; ask for it by name";
  if (gpus <= algorithm.compared_up_to) return "";
  return fmt::format("its messages among more than {} GPUs take long to simulate",
                     algorithm.compared_up_to);
}

namespace {

/// What to say about a name that is no algorithm for the collective.
std::string no_such_algorithm(const std::string& name, Collective collective) {
  const std::vector<Collective> others = collectives_of(name);
  if (others.empty()) return fmt::format("there is no algorithm called '{}'", name);
  std::vector<std::string_view> titles;
  for (const Collective c : others) titles.push_back(title_of(c));
  return fmt::format("{} has no {}; it has {}", name, title_of(collective),
                     fmt::join(titles, ", "));
}

}  // namespace

Method method_named(const std::string& name, const std::string& option, Collective collective) {
  Method method;
  method.collective = collective;
  if (name == "nccl") method.kind = MethodKind::nccl;
  else if (name == "best") method.kind = MethodKind::best;
  else if (name == "smddp") {
    method.kind = MethodKind::smddp;
    if (const SmddpCollective* own = smddp().of(collective)) {
      method.algorithm = find_algorithm(own->algorithm, collective);
      method.inner = own->inner;
    }
    return method;
  } else method.algorithm = find_algorithm(name, collective);
  if (method.kind == MethodKind::ours && !method.algorithm)
    throw input_error(option + (option.empty() ? "" : ": ") + no_such_algorithm(name, collective),
                      suggest(name, method_names(collective)));
  if (method.algorithm && method.algorithm->takes_inner) method.inner = kUsualInner;
  return method;
}

std::vector<Method> methods_of(const AllReduceSpec& spec, Collective collective, MethodUse use) {
  std::vector<Method> methods;
  for (const std::string& name : spec.algorithm.values)
    for (const std::string& profile : spec.profile.values) {
      const std::vector<Collective> has = collectives_of(name);
      const bool lacks = !has.empty() && !find_algorithm(name, collective);
      Method method =
          method_named(name, "", lacks && use == MethodUse::step ? has.front() : collective);
      method.profile = profile;
      if (method.kind == MethodKind::nccl) {
        const std::vector<Method> forced = nccl_methods(method, spec.nccl, use);
        methods.insert(methods.end(), forced.begin(), forced.end());
        continue;
      }
      if (method.kind != MethodKind::ours) {
        methods.push_back(method);
        continue;
      }
      const auto inners =
          method.algorithm->takes_inner ? spec.inner.values : std::vector<std::string>{""};
      const auto counts = method.uses_servers() && spec.servers.place == ServerPlace::dedicated
                              ? spec.servers.count.values
                              : std::vector<int>{0};
      for (const std::string& inner : inners)
        for (const int count : counts)
          for (const std::string& protocol : spec.protocol.values)
            for (const int segments : spec.segments.values) {
              method.inner = inner;
              method.servers = count;
              method.protocol = value_named<NcclProtocol>(protocol);  // nothing: auto
              method.segments = segments;
              methods.push_back(method);
            }
    }
  return methods;
}

void require_all_reduce(const Method& method) {
  if (method.kind == MethodKind::nccl && method.algorithm &&
      method.algorithm->collective != Collective::all_reduce)
    throw key_error("allreduce.nccl.algo",
                    fmt::format("NCCL has no all-reduce by {}", method.algorithm->name));
  if (method.kind == MethodKind::ours && method.collective != Collective::all_reduce)
    throw key_error("allreduce.algorithm",
                    no_such_algorithm(std::string(method.algorithm->name), Collective::all_reduce));
}

std::string Interval::why() const { return fmt::format("{}", fmt::join(widened, "; ")); }

namespace {

/// The layout that a candidate's collective sees.
std::shared_ptr<const Layout> layout_of(const Candidate& c) {
  if (c.groups.whole()) return c.layout;
  return std::make_shared<const Layout>(c.layout->subset(c.groups));
}

}  // namespace

bool Candidate::by_nccl() const {
  // SMDDP's servers sum over all ranks.
  const auto lacks = [this] {
    return !method.algorithm || layout_of(*this)->nodes < 2 ||
           (method.algorithm->uses_servers && !groups.whole());
  };
  const bool left_to_nccl = method.kind == MethodKind::smddp && lacks();
  return method.kind == MethodKind::nccl || left_to_nccl;
}

std::string Candidate::unsupported() const {
  if (method.kind == MethodKind::smddp)
    if (const std::string why = smddp_unsupported(cluster->node(0).machine(), method.collective);
        !why.empty())
      return why;
  if (by_nccl()) {
    try {
      question(1, Type::f32);
      return "";
    } catch (const InputError& e) {
      return words_of(e);
    }
  }
  const auto seen = layout_of(*this);
  // Channels are checked against what the topology has: more is not silently less.
  if (groups.whole() && channels > static_cast<int>(layout->channels.size()))
    return fmt::format("{} {} asked for; this topology has {}", counted(channels, "channel"),
                       channels == 1 ? "is" : "are", layout->channels.size());
  if (const std::string why = protocol_unsupported(*profile, *seen, method.protocol_word());
      !why.empty())
    return why;
  const Plan plan = with_defaults(*method.algorithm, method.plan(channels), *seen, 1);
  return unsupported_reason(*method.algorithm, *seen, plan).value_or("");
}

Question Candidate::question(std::size_t count, Type type) const {
  const Bytes bytes{static_cast<double>(count * size_of(type))};
  if (workers && by_nccl()) {
    Candidate alone = *this;
    alone.cluster = std::exchange(alone.workers, nullptr);
    alone.layout = workers_layout;
    return alone.question(count, type);
  }
  const auto seen = layout_of(*this);
  Schedule schedule;
  if (by_nccl()) {
    const bool can_force = method.kind == MethodKind::nccl && method.algorithm;
    const NcclForced forced{
        can_force ? value_named<NcclAlgorithm>(method.algorithm->name) : std::nullopt,
        method.protocol,
        method.nccl_channels,
        method.nccl_release,
        method.nccl_buffer,
        method.nccl_reported};
    schedule = nccl_schedule({*cluster, *seen, profile}, bytes, forced, method.collective);
  } else {
    schedule = own_schedule(*method.algorithm, method.plan(channels), {*cluster, *seen, profile},
                            bytes, method.protocol_word(), protocol_place);
  }
  return {cluster, std::move(schedule), count, type, groups, {}};
}

namespace {

/// The question with at most so many of its segments, all of one length.
Question cut_short(Question q, int most) {
  int& segments = q.schedule.plan.segments;
  q.schedule.plan.last = Segments::kFull;
  if (segments <= most) return q;
  q.count = q.count / static_cast<std::size_t>(segments) * static_cast<std::size_t>(most);
  segments = most;
  return q;
}

}  // namespace

ConcurrentPair concurrent_pair(const Question& first, const Question& second) {
  constexpr int kSegments = 4;
  ConcurrentPair t{cut_short(first, kSegments), cut_short(first, kSegments),
                   cut_short(second, kSegments)};
  // Where one of the two takes reduction servers, both run on the cluster that has them.
  const bool has_servers = first.cluster->servers().any();
  t.both.cluster = t.first.cluster = t.second.cluster =
      has_servers ? first.cluster : second.cluster;
  t.second.schedule.sending = first.schedule.sending;
  // Elements of the first's type.
  const std::size_t count = t.second.count * size_of(second.type) / size_of(first.type);
  t.both.beside = Beside{second.schedule.algorithm, t.second.schedule.plan, count, second.groups};
  return t;
}

/// While both run either has a constant speed; what is left over then runs alone.
std::array<double, 2> concurrent_speeds(const CollectiveResult& both, Seconds first,
                                        Seconds second) {
  const bool first_ends = both.first < both.second;
  const double shared = std::min(both.first, both.second).value;
  if (shared <= 0) return {1, 1};
  const double left = std::abs((both.second - both.first).value);
  const auto speed = [&](double alone, double unfinished) {
    return std::clamp((alone - unfinished) / shared, 0.01, 1.0);
  };
  return {speed(first.value, first_ends ? 0 : left), speed(second.value, first_ends ? left : 0)};
}

RunBy Candidate::run_by(Bytes bytes) const {
  if (!by_nccl()) return RunBy::own_algorithm;
  // Half of the published sources ran with NCCL's own buffers, those of p5's profile among them.
  const bool other_buffer = method.nccl_buffer.value > 0 && method.nccl_buffer != kNcclBuffer;
  if (method.nccl_channels > 0 || other_buffer) return RunBy::forced;
  if (const auto& gpu = cluster->weakest().machine().gpu;
      gpu && older_than_compared(method.nccl_release, *gpu))
    return RunBy::older_release;
  if (!method.protocol && !method.algorithm) return RunBy::library;
  const auto seen = layout_of(*this);
  const NcclForced free{.release = method.nccl_release,
                        .buffer = method.nccl_buffer,
                        .reported = method.nccl_reported};
  const Schedule own = nccl_schedule({*cluster, *seen, profile}, bytes, free, method.collective);
  const bool same = (!method.protocol || own.sending.protocol == method.protocol_word()) &&
                    (!method.algorithm || own.algorithm == method.algorithm);
  return same ? RunBy::library : RunBy::forced;
}

Interval Candidate::interval(Bytes bytes, const Outcome& outcome) const {
  const Seconds time = outcome.result.time;
  if (cluster->node(0).machine().textbook || layout->workers < 2)
    return {time, time, false, {}, {}};
  Uncertainty u = uncertainty(*profile, *cluster, bytes, run_by(bytes), method.collective);
  // The two errors do not depend on each other.
  const auto joined = [&](double spread) {
    return std::exp(std::hypot(std::log(spread), std::log1p(outcome.extrapolation_error)));
  };
  u.spread = joined(u.spread);
  Interval interval{u.low(time), u.high(time), true, u.reasons, {}};
  if (u.published) {
    const double spread = joined(*u.published);
    interval.published = {u.low(time, spread), time * spread};
  }
  return interval;
}

bool best_without_nccl(const Method& method, std::span<const Candidate> candidates) {
  return method.kind == MethodKind::best &&
         std::none_of(candidates.begin(), candidates.end(),
                      [](const Candidate& c) { return c.by_nccl(); });
}

std::vector<std::size_t> ask_each(Batch& batch, std::span<const Candidate> candidates,
                                  std::size_t count, Type type) {
  std::vector<std::size_t> numbers;
  std::size_t likeliest = 0;
  for (const Candidate& candidate : candidates) {
    const Question question = candidate.question(count, type);
    std::optional<Alternative> alternative;
    if (candidate.protocol_place > 0) alternative = {likeliest, question.schedule.least};
    numbers.push_back(batch.ask(question, alternative));
    if (!alternative) likeliest = numbers.back();
  }
  return numbers;
}

SimulationMode mode_of(std::span<const Outcome* const> outcomes) {
  bool from_disk = !outcomes.empty(), extrapolated = false, symmetric = false;
  for (const Outcome* one : outcomes) {
    if (one->needless) continue;
    from_disk = from_disk && one->from_disk;
    extrapolated = extrapolated || one->extrapolated;
    symmetric = symmetric || one->result.symmetric;
  }
  if (from_disk) return SimulationMode::cached;
  if (extrapolated) return SimulationMode::extrapolated;
  return symmetric ? SimulationMode::symmetric : SimulationMode::full;
}

std::string words_of(const InputError& e) {
  const Problem& first = e.problems().front();
  return first.message + (first.hint.empty() ? "" : "; " + first.hint);
}

}  // namespace foreduce
