#include "scenarios/report/explain_report.hpp"

#include <fmt/format.h>

#include <array>
#include <map>

#include "scenarios/report/cluster_picture.hpp"
#include "scenarios/report/sharding_report.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

struct PartWords {
  const char *key, *words;
};

/// By PartKind: the word in JSON, and what a reader is told.
PartWords words_of(PartKind kind) {
  static constexpr std::array<PartWords, 18> kAll = {
      {{"launch", "kernel launch"},
       {"overhead", "handling messages"},
       {"rest", "rest between messages"},
       {"latency", "latency"},
       {"transfer", "transfer"},
       {"sharing", "sharing a link"},
       {"reduction", "copying and adding"},
       {"forward", "forward"},
       {"backward", "backward"},
       {"optimizer", "optimizer"},
       {"straggler", "wait for the slowest GPU"},
       {"slowed", "computing slowed by communication"},
       {"beside", "collectives slowed by others"},
       {"cycle", "wait for Horovod's cycle"},
       {"step_overhead", "step overhead"},
       {"input_wait", "wait for input"},
       {"bubble", "pipeline bubble"},
       {"collective", "communication"}}};
  return kAll.at(static_cast<std::size_t>(kind));
}

std::string words_of_part(const std::string& key) {
  for (auto kind = PartKind::launch; kind <= PartKind::collective;
       kind = static_cast<PartKind>(static_cast<int>(kind) + 1))
    if (key == words_of(kind).key) return words_of(kind).words;
  return key;
}

struct ChangeWords {
  const char *key, *words;
};

/// By ChangeKind; "{}" is what it is about.
ChangeWords words_of(ChangeKind kind) {
  static constexpr std::array<ChangeWords, 14> kAll = {
      {{"nic_bandwidth", "NICs twice as fast"},
       {"network_latency", "half the latency between nodes"},
       {"message_cost", "half the overhead of each message"},
       {"nvlink_bandwidth", "NVLink twice as fast"},
       {"nvlink_latency", "half the latency of NVLink"},
       {"pcie_bandwidth", "PCIe twice as fast"},
       {"nic_and_pcie_bandwidth", "NICs and PCIe twice as fast"},
       {"reduction", "copying and adding twice as fast"},
       {"oversubscription", "no oversubscription"},
       {"placement", "nodes packed under leaf switches"},
       {"algorithm", "algorithm: {}"},
       {"bucket", "buckets of {}"},
       {"gradient", "gradients in {}"},
       {"compute", "computing twice as fast"}}};
  return kAll.at(static_cast<std::size_t>(kind));
}

std::string words_of(const WhatIf& w) {
  const std::string words =
      fmt::format(fmt::runtime(words_of(w.kind).words),
                  w.kind == ChangeKind::bucket ? size_words(w.bytes.value) : w.word);
  return words + (w.chosen.empty() ? "" : ", then " + schedule_words(w.chosen));
}

/// A message of the critical path: when its part of the path begins and ends, and what that is made
/// of.
Json message_report(const CollectiveRecord& record, std::size_t first, std::size_t last) {
  const PathStep& begin = record.path[first];
  const MessageRecord& m = record.messages[begin.message];
  Json j = {
      {"from", m.from},
      {"to", m.to},
      {"tag", describe_tag(m.tag)},
      {"bytes", m.payload},
      {"held", begin.wait_reason == WaitReason::by_data         ? "by data"
               : begin.wait_reason == WaitReason::by_connection ? "by its connection"
                                                                : "by another message at its end"},
      {"link", Json()},
      {"start_s", begin.start},
      {"end_s", record.path[last].end}};
  std::map<std::string, double> times;
  for (std::size_t i = first; i <= last; ++i) {
    const PathStep& step = record.path[i];
    times[name_of(step.kind)] += step.end - step.start;
    if (step.kind == PathStepKind::transfer && step.link != PathStep::kNone)
      j["link"] = record.links[step.link].link;
  }
  for (const auto& [name, time] : times) j[name + "_s"] = time;
  return j;
}

Json messages_report(const CollectiveRecord& record) {
  Json all = Json::array();
  for (std::size_t first = 0; first < record.path.size();) {
    std::size_t last = first;
    const std::size_t message = record.path[first].message;
    while (last + 1 < record.path.size() && record.path[last + 1].message == message) ++last;
    if (message != PathStep::kNone) all.push_back(message_report(record, first, last));
    first = last + 1;
  }
  return all;
}

Json collective_report(const ExplainedCollective& c, const ShardingPlan& plan) {
  Json j = {{"kind", word_of(c.kind, plan)},
            {"elements", c.elements},
            {"bytes", c.bytes.value},
            {"algorithm", schedule_words(c.schedule)},
            {"time_s", c.time.value}};
  if (!c.recorded) {
    j["not_recorded_because"] = c.not_recorded;
    return j;
  }
  j["recorded_time_s"] = c.recorded->time.value;
  j["bottleneck_link"] = c.recorded->bottleneck;
  j["links"] = Json::array();
  for (const LinkLoad& load : c.recorded->loads)
    j["links"].push_back({{"link", load.link},
                          {"kind", name_of(load.kind)},
                          {"GBps", load.bandwidth.value * 1e-9},
                          {"bytes", load.bytes},
                          {"utilisation", load.utilisation}});
  j["messages"] = messages_report(c.recorded->record);
  return j;
}

Json piece_report(const StepPiece& piece, const ShardingPlan& plan) {
  static constexpr std::array<const char*, 4> kWorks = {"forward", "backward", "optimizer",
                                                        "collective"};
  const Activity& a = piece.activity;
  Json j = {{"work", kWorks.at(static_cast<std::size_t>(a.work))},
            {"stream", word_of(a.stream, plan)},
            {"micro_batch", a.micro_batch},
            {"index", a.index}};
  if (!a.unit.empty()) j["unit"] = a.unit;
  if (a.work == Work::collective) j["elements"] = a.elements;
  j["start_s"] = piece.start.value;
  j["end_s"] = piece.end.value;
  return j;
}

}  // namespace

const char* name_of(PathStepKind kind) {
  switch (kind) {
    case PathStepKind::launch: return "launch";
    case PathStepKind::rest: return "rest";
    case PathStepKind::latency: return "latency";
    case PathStepKind::transfer: return "transfer";
    case PathStepKind::sharing: return "sharing";
    case PathStepKind::reduction: return "reduction";
    case PathStepKind::overhead:
    case PathStepKind::nothing: break;
  }
  return "overhead";
}

std::string part_words(const Json& part) {
  const std::string link = text_or(part, "link"), kind = text_or(part, "part");
  if (!link.empty())
    return fmt::format("{}, {} {}", words_of_part(kind), text_or(part, "link_kind"), link);
  return words_of_part(kind) + (kind == "transfer" ? " at a connection's own limit" : "");
}

Json explain_report(const Explanation& e) {
  Json j = sweep_head("explain", e.provenance, e.points);
  j["point"] = std::visit([](const auto& p) { return point_report(p, Cost::left_out); }, e.point);
  j["time_s"] = e.time.value;
  j["parts"] = Json::array();
  for (const TimePart& p : e.parts)
    j["parts"].push_back({{"part", words_of(p.kind).key},
                          {"link", p.link.empty() ? Json() : Json(p.link)},
                          {"link_kind", p.link.empty() ? Json() : Json(name_of(p.link_kind))},
                          {"time_s", p.time.value},
                          {"share", p.time / e.time}});
  j["path"] = Json::array();
  const auto* step = std::get_if<Prediction>(&e.point);
  const ShardingPlan plan = step ? step->sharding : ShardingPlan{};
  for (const StepPiece& piece : e.steps) j["path"].push_back(piece_report(piece, plan));
  j["collectives"] = Json::array();
  for (const ExplainedCollective& c : e.collectives)
    j["collectives"].push_back(collective_report(c, plan));
  // What was asked for by itself is no stream of a step, and may be any collective.
  if (const auto asked = j["point"].find("collective"); asked != j["point"].end())
    for (Json& c : j["collectives"]) c["kind"] = *asked;
  j["changes"] = Json::array();
  for (const WhatIf& w : e.changes)
    j["changes"].push_back({{"change", words_of(w.kind).key},
                            {"words", words_of(w)},
                            {"time_s", w.time.value},
                            {"saved_s", w.saved.value},
                            {"saved_share", w.saved / e.time}});
  std::visit([&](const auto& p) { put_cluster(j, p); }, e.point);
  return j;
}

}  // namespace foreduce
