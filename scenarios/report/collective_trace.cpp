// A collective as a trace: messages of ranks, and links.
#include <fmt/format.h>

#include <map>
#include <tuple>

#include "scenarios/report/trace.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

constexpr int kLinks = 0, kFirstRank = 1;
constexpr int kKernelRow = 0, kFirstConnection = 1;

/// Messages of one connection follow one another, and have a row.
struct Connection {
  int from = 0, to = 0, channel = 0;
  bool second_half = false;
  auto operator<=>(const Connection&) const = default;
};

Connection connection_of(const MessageRecord& m) {
  return {m.from, m.to, channel_of(m.tag), is_second_half(m.tag)};
}

}  // namespace

std::string trace_of(const Comparison& p) {
  TraceEvents events;
  const CollectiveRecord& record = p.recorded->record;
  std::map<Connection, int> rows;
  for (const MessageRecord& m : record.messages) rows.try_emplace(connection_of(m), 0);
  int rank = -1, row = 0;
  for (auto& [c, number] : rows) {
    if (c.from != rank) {
      events.process(kFirstRank + c.from, fmt::format("rank {}", c.from));
      rank = c.from;
      row = kFirstConnection;
    }
    number = row++;
    events.row(kFirstRank + c.from, number,
               fmt::format("to rank {}, channel {}{}", c.to, c.channel,
                           c.second_half ? ", second tree" : ""));
  }
  events.row(kFirstRank, kKernelRow, "kernel, until every rank is done");
  events.slice(kFirstRank, kKernelRow,
               fmt::format("{} {}", nccl_kernel(p.collective),
                           p.chosen.algorithm.empty() ? p.algorithm : schedule_words(p.chosen)),
               "kernel", 0, p.recorded->time.value,
               {{"stream", 0}, {"device", 0}, {"bytes", p.bytes}});
  for (const MessageRecord& m : record.messages)
    events.slice(kFirstRank + m.from, rows.at(connection_of(m)), describe_tag(m.tag), "message",
                 m.leaves, m.left,
                 {{"to", m.to},
                  {"bytes", m.payload},
                  {"wire_bytes", m.wire},
                  {"posted_us", 1e6 * m.posted},
                  {"landed_us", 1e6 * m.landed}});
  events.process(kLinks, "the busiest link of each class");
  Json facts = report_head("trace");
  facts["link_bytes"] = Json::object();
  for (const LinkRecord& link : record.links) {
    events.counter(kLinks, link.link, 0, "GB/s", 0);
    for (const LinkRate& r : link.rates)
      events.counter(kLinks, link.link, r.at, "GB/s", 1e-9 * r.rate);
    facts["link_bytes"][link.link] = link.bytes;
  }
  facts["time_us"] = 1e6 * p.recorded->time.value;
  facts["simulated_ranks"] = p.recorded->traffic.size();
  facts["point"] = point_report(p, Cost::left_out);
  return events.file(facts);
}

}  // namespace foreduce
