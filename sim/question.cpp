#include "sim/question.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foreduce {
namespace {

std::string key_of(const Beside& b) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}", identity_of(*b.algorithm, b.plan), b.plan.segments,
                     b.plan.together, b.plan.last, b.plan.channels, b.count, b.groups.size,
                     b.groups.stride);
}

}  // namespace

std::size_t shortened(const Question& q, int segments) {
  const Plan& plan = q.schedule.plan;
  if (segments == plan.segments) return q.count;
  const int per_node = std::max(1, q.cluster->gpus() / q.cluster->worker_nodes());
  Segments fewer = plan.cut();
  fewer.count = segments;
  const auto unit = 2 * static_cast<std::size_t>(std::max(1, plan.channels)) *
                    static_cast<std::size_t>(per_node) * fewer.parts();
  const double share = static_cast<double>(fewer.parts()) / static_cast<double>(plan.cut().parts());
  const auto count = static_cast<std::size_t>(std::ceil(static_cast<double>(q.count) * share));
  return count < 16 * unit ? count : count - count % unit;
}

CollectiveCall call_of(const Question& q, int segments) {
  Plan plan = q.schedule.plan;
  plan.segments = segments;
  return {
      *q.cluster, *q.schedule.algorithm, plan, shortened(q, segments), q.type, Op::sum, q.groups,
      q.beside};
}

std::string key_of(const Question& q, const std::string& cluster, const std::string& profile) {
  const Sending& s = q.schedule.sending;
  const Plan& p = q.schedule.plan;
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{:a}|{:a}|{:a}|{}|{}|{}|{:a}|{:a}|{}|{}|{}",
                     cluster, profile, identity_of(*q.schedule.algorithm, p), p.segments,
                     p.together, p.last, p.channels, q.count, static_cast<int>(q.type), s.protocol,
                     s.channels_each, s.messages_each, s.slots, s.separate_halves, s.many_peers,
                     s.ring, s.chain, s.switch_share, q.groups.size, q.groups.stride,
                     q.beside ? key_of(*q.beside) : "");
}

std::string key_of(const Question& q) {
  return key_of(q, fmt::format("{}", static_cast<const void*>(q.cluster.get())),
                fmt::format("{}", static_cast<const void*>(q.schedule.sending.profile.get())));
}

std::string messages_key(const Question& q, int segments) {
  const Plan& plan = q.schedule.plan;
  const auto pieces = static_cast<std::size_t>(q.cluster->gpus()) *
                      static_cast<std::size_t>(std::max(1, segments)) *
                      static_cast<std::size_t>(std::max(1, plan.channels));
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}", static_cast<const void*>(q.cluster.get()),
                     identity_of(*q.schedule.algorithm, plan), segments, plan.together,
                     plan.channels, q.groups.size, q.groups.stride, std::min(q.count, pieces),
                     q.beside ? key_of(q) : "");
}

}  // namespace foreduce
