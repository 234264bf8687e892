#include "sim/collective_json.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/child_process.hpp"
#include "sim/simulator.hpp"

namespace foreduce {

using nlohmann::json;

namespace {

/// Numbers as they lie in memory. Answers go to the parent and into this machine's cache alone, and
/// most of what writing and reading them took was a value for each number.
template <class Number>
json packed(const std::vector<Number>& numbers) {
  std::vector<std::uint8_t> bytes(numbers.size() * sizeof(Number));
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return json::binary(std::move(bytes));
}
[[noreturn]] void fail_cut() { throw std::runtime_error("an answer is cut"); }

/// Throws where the value is of another type, or cut.
template <class Number>
std::vector<Number> unpacked(const json& j) {
  const auto& bytes = j.get_binary();
  if (bytes.size() % sizeof(Number) != 0) fail_cut();
  std::vector<Number> numbers(bytes.size() / sizeof(Number));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(Number));
  return numbers;
}

constexpr std::size_t kNumbersOfLoad = 4;

/// The links' names, a line each, and what is known of each.
json packed_loads(const std::vector<LinkLoad>& loads) {
  std::string names;
  std::vector<double> numbers;
  numbers.reserve(loads.size() * kNumbersOfLoad);
  for (const LinkLoad& l : loads) {
    names += l.link + "\n";
    numbers.insert(numbers.end(), {static_cast<double>(static_cast<int>(l.kind)), l.bandwidth.value,
                                   l.bytes, l.utilisation});
  }
  return {{"links", std::move(names)}, {"numbers", packed(numbers)}};
}
std::vector<LinkLoad> unpacked_loads(const json& j) {
  const auto& names = j.at("links").get_ref<const std::string&>();
  const auto numbers = unpacked<double>(j.at("numbers"));
  const auto lines = static_cast<std::size_t>(std::count(names.begin(), names.end(), '\n'));
  if (numbers.size() != kNumbersOfLoad * lines) fail_cut();
  std::vector<LinkLoad> loads;
  loads.reserve(numbers.size() / kNumbersOfLoad);
  std::size_t name = 0;
  for (std::size_t i = 0; i < numbers.size(); i += kNumbersOfLoad) {
    const std::size_t end = names.find('\n', name);
    loads.push_back({names.substr(name, end - name), static_cast<LinkKind>(numbers[i]),
                     BytesPerSecond{numbers[i + 1]}, numbers[i + 2], numbers[i + 3]});
    name = end + 1;
  }
  return loads;
}

/// Messages and elements that each rank sent.
json packed_traffic(const std::vector<Traffic>& traffic) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(2 * traffic.size());
  for (const Traffic& t : traffic)
    numbers.insert(numbers.end(), {t.messages_sent, t.elements_sent});
  return packed(numbers);
}
std::vector<Traffic> unpacked_traffic(const json& j) {
  const auto numbers = unpacked<std::uint64_t>(j);
  if (numbers.size() % 2 != 0) fail_cut();
  std::vector<Traffic> traffic;
  for (std::size_t i = 0; i < numbers.size(); i += 2)
    traffic.push_back({numbers[i], numbers[i + 1]});
  return traffic;
}

}  // namespace

json to_json(const CollectiveResult& r) {
  json j = {{"time", r.time.value},
            {"first", r.first.value},
            {"second", r.second.value},
            {"messages", r.messages},
            {"symmetric", r.symmetric},
            {"bottleneck", r.bottleneck},
            {"wall", r.wall_seconds},
            {"loads", packed_loads(r.loads)},
            {"traffic", packed_traffic(r.traffic)},
            {"utilisations", packed(r.utilisations)},
            {"timeline", json::array()}};
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
  r.loads = unpacked_loads(j.at("loads"));
  r.utilisations = unpacked<double>(j.at("utilisations"));
  r.traffic = unpacked_traffic(j.at("traffic"));
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
