#include "scenarios/sweep/methods.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreduce {

const std::vector<std::pair<std::string, std::string>>& nccl_algorithm_words() {
  static const std::vector<std::pair<std::string, std::string>> all = {
      {"Ring", "ring"}, {"Tree", "double-tree"}, {"NVLS", "nvls"}, {"NVLSTree", "nvls-tree"}};
  return all;
}

namespace {

std::string nccl_name(const Method& m) {
  std::string name = "nccl";
  for (const auto& [word, ours] : nccl_algorithm_words())
    if (m.algorithm && m.algorithm->name == ours) name += " " + word;
  if (!m.protocol.empty()) name += " " + m.protocol;
  if (m.nccl_channels > 0) name += fmt::format(" {} channels", m.nccl_channels);
  return name;
}

/// NCCL with everything that is forced, in all combinations.
std::vector<Method> nccl_methods(const Method& nccl, const NcclSpec& spec) {
  const auto or_free = [](const auto& axis, auto free) {
    return axis.values.empty() ? std::vector{free} : axis.values;
  };
  std::vector<Method> methods;
  for (const std::string& algo : or_free(spec.algo, std::string()))
    for (const std::string& proto : or_free(spec.proto, std::string()))
      for (const int channels : or_free(spec.channels, 0)) {
        Method m = nccl;
        for (const auto& [word, ours] : nccl_algorithm_words())
          if (word == algo) m.algorithm = find_algorithm(ours);
        m.protocol = proto;
        m.nccl_channels = channels;
        methods.push_back(m);
      }
  return methods;
}

}  // namespace

std::string Method::name() const {
  switch (kind) {
    case MethodKind::nccl: return nccl_name(*this);
    case MethodKind::best: return "best";
    case MethodKind::ours: break;
  }
  return std::string(algorithm->name);
}

std::vector<std::string> method_names() {
  std::vector<std::string> names{"nccl", "best"};
  for (const Algorithm* a : algorithms()) names.emplace_back(a->name);
  return names;
}

Method method_named(const std::string& name, const std::string& option) {
  Method method;
  if (name == "nccl") method.kind = MethodKind::nccl;
  else if (name == "best") method.kind = MethodKind::best;
  else method.algorithm = find_algorithm(name);
  if (method.kind == MethodKind::ours && !method.algorithm)
    throw input_error(fmt::format("{}{}there is no algorithm called '{}'", option,
                                  option.empty() ? "" : ": ", name),
                      suggest(name, method_names()));
  if (method.algorithm && method.algorithm->takes_inner) method.inner = "ring";
  return method;
}

std::vector<Method> methods_of(const AllReduceSpec& spec) {
  std::vector<Method> methods;
  for (const std::string& name : spec.algorithm.values)
    for (const std::string& profile : spec.profile.values) {
      Method method = method_named(name);
      method.profile = profile;
      if (method.kind == MethodKind::nccl) {
        const std::vector<Method> forced = nccl_methods(method, spec.nccl);
        methods.insert(methods.end(), forced.begin(), forced.end());
        continue;
      }
      if (method.kind == MethodKind::best) {
        methods.push_back(method);
        continue;
      }
      const auto inners =
          method.algorithm->takes_inner ? spec.inner.values : std::vector<std::string>{""};
      const auto counts = method.uses_servers() && spec.servers.place == "dedicated"
                              ? spec.servers.count.values
                              : std::vector<int>{0};
      for (const std::string& inner : inners)
        for (const int count : counts)
          for (const int segments : spec.segments.values) {
            method.inner = inner;
            method.servers = count;
            method.segments = segments;
            methods.push_back(method);
          }
    }
  return methods;
}

std::string Interval::why() const { return fmt::format("{}", fmt::join(widened, "; ")); }

std::string Candidate::unsupported() const {
  if (method.kind == MethodKind::nccl) {
    try {
      question(1, Type::f32);
      return "";
    } catch (const InputError& e) {
      return words_of(e);
    }
  }
  // Channels are checked against what the topology has: more is not silently less.
  if (channels > static_cast<int>(layout->channels.size()))
    return fmt::format("{} channels are asked for; this topology has {}", channels,
                       layout->channels.size());
  const Plan plan = with_defaults(*method.algorithm, method.plan(channels), *layout, 1);
  return unsupported_reason(*method.algorithm, *layout, plan).value_or("");
}

Question Candidate::question(std::size_t count, Type type) const {
  const Bytes bytes{static_cast<double>(count * size_of(type))};
  if (method.kind == MethodKind::nccl) {
    const NcclForced forced{method.algorithm ? std::string(method.algorithm->name) : "",
                            method.protocol, method.nccl_channels};
    return {cluster, nccl_schedule(*cluster, *layout, profile, bytes, forced), count, type};
  }
  return {cluster, own_schedule(*method.algorithm, method.plan(channels), *layout, profile, bytes),
          count, type};
}

Interval Candidate::interval(Bytes bytes, Seconds time) const {
  if (cluster->node(0).machine().name == "switch" || layout->workers < 2)
    return {time, time, false, {}};
  const Uncertainty u =
      uncertainty(*profile, *cluster, bytes,
                  method.kind == MethodKind::ours ? RunBy::own_algorithm : RunBy::library);
  return {u.low(time), u.high(time), true, u.reasons};
}

std::string words_of(const InputError& e) {
  const Problem& first = e.problems().front();
  return first.message + (first.hint.empty() ? "" : "; " + first.hint);
}

}  // namespace foreduce
