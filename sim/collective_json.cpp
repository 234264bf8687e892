#include "sim/collective_json.hpp"

#include "sim/child_process.hpp"
#include "sim/simulator.hpp"

namespace foreduce {

using nlohmann::json;

json to_json(const CollectiveResult& r) {
  json j = {
      {"time", r.time.value},           {"first", r.first.value},   {"second", r.second.value},
      {"messages", r.messages},         {"symmetric", r.symmetric}, {"bottleneck", r.bottleneck},
      {"wall", r.wall_seconds},         {"loads", json::array()},   {"traffic", json::array()},
      {"utilisations", r.utilisations}, {"timeline", json::array()}};
  for (const auto& l : r.loads)
    j["loads"].push_back(
        {l.link, static_cast<int>(l.kind), l.bandwidth.value, l.bytes, l.utilisation});
  for (const auto& t : r.traffic) j["traffic"].push_back({t.messages_sent, t.elements_sent});
  for (const auto& s : r.timeline)
    j["timeline"].push_back(
        {s.rank, static_cast<int>(s.verb), s.peer, s.tag, s.bytes, s.posted, s.ended});
  if (r.record.messages.empty() && r.record.path.empty()) return j;
  j["record"] = {{"messages", json::array()}, {"links", json::array()}, {"path", json::array()}};
  for (const auto& s : r.record.path)
    j["record"]["path"].push_back({static_cast<int>(s.kind), static_cast<int>(s.wait_reason),
                                   s.start, s.end, s.message, s.link});
  for (const auto& m : r.record.messages)
    j["record"]["messages"].push_back(
        {m.from, m.to, m.tag, m.payload, m.wire, m.posted, m.leaves, m.left, m.landed});
  for (const auto& l : r.record.links) {
    json& one = j["record"]["links"].emplace_back(json{l.link, l.bytes, json::array()});
    for (const auto& rate : l.rates) one[2].push_back({rate.at, rate.rate});
  }
  return j;
}

CollectiveResult collective_from_json(const json& j) {
  CollectiveResult r;
  r.time = Seconds{j.at("time").get<double>()};
  r.first = Seconds{j.at("first").get<double>()};
  r.second = Seconds{j.at("second").get<double>()};
  r.messages = j.at("messages").get<std::uint64_t>();
  r.symmetric = j.at("symmetric").get<bool>();
  r.bottleneck = j.at("bottleneck").get<std::string>();
  r.wall_seconds = j.at("wall").get<double>();
  for (const auto& l : j.at("loads"))
    r.loads.push_back({l.at(0).get<std::string>(), static_cast<LinkKind>(l.at(1).get<int>()),
                       BytesPerSecond{l.at(2).get<double>()}, l.at(3).get<double>(),
                       l.at(4).get<double>()});
  r.utilisations = j.at("utilisations").get<std::vector<double>>();
  for (const auto& t : j.at("traffic"))
    r.traffic.push_back({t.at(0).get<std::uint64_t>(), t.at(1).get<std::uint64_t>()});
  for (const auto& s : j.at("timeline"))
    r.timeline.push_back({s.at(0).get<int>(), static_cast<Verb>(s.at(1).get<int>()),
                          s.at(2).get<int>(), s.at(3).get<std::uint64_t>(),
                          s.at(4).get<std::uint64_t>(), s.at(5).get<double>(),
                          s.at(6).get<double>()});
  if (!j.contains("record")) return r;
  for (const auto& m : j.at("record").at("messages"))
    r.record.messages.push_back(
        {m.at(0).get<int>(), m.at(1).get<int>(), m.at(2).get<std::uint64_t>(),
         m.at(3).get<double>(), m.at(4).get<double>(), m.at(5).get<double>(), m.at(6).get<double>(),
         m.at(7).get<double>(), m.at(8).get<double>()});
  for (const auto& s : j.at("record").at("path"))
    r.record.path.push_back({static_cast<PathStepKind>(s.at(0).get<int>()),
                             static_cast<WaitReason>(s.at(1).get<int>()), s.at(2).get<double>(),
                             s.at(3).get<double>(), s.at(4).get<std::size_t>(),
                             s.at(5).get<std::size_t>()});
  for (const auto& l : j.at("record").at("links")) {
    LinkRecord& link = r.record.links.emplace_back(
        LinkRecord{l.at(0).get<std::string>(), l.at(1).get<double>(), {}});
    for (const auto& rate : l.at(2))
      link.rates.push_back({rate.at(0).get<double>(), rate.at(1).get<double>()});
  }
  return r;
}

CollectiveResult simulate(const CollectiveCall& asked, const SimOptions& options) {
  load_simulator();
  const ChildResult outcome = run_in_child([&] { return to_json(simulate_here(asked, options)); });
  if (!outcome.ok) throw TransportError(outcome.error);
  CollectiveResult result = collective_from_json(outcome.value);
  result.peak_rss_bytes = outcome.peak_rss_bytes;
  return result;
}

}  // namespace foreduce
