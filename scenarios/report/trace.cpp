#include "scenarios/report/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "scenarios/report/sharding_report.hpp"
#include "scenarios/report/words.hpp"
#include "scenarios/sweep/cases.hpp"
#include "scenarios/sweep/step_collectives.hpp"

namespace foreduce {

void TraceEvents::add(const Json& event) {
  events_ +=
      (events_.empty() ? "" : ",\n") + event.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void TraceEvents::process(int pid, const std::string& name) {
  add({{"ph", "M"}, {"name", "process_name"}, {"pid", pid}, {"args", {{"name", name}}}});
  add({{"ph", "M"}, {"name", "process_sort_index"}, {"pid", pid}, {"args", {{"sort_index", pid}}}});
}

void TraceEvents::row(int pid, int tid, const std::string& name) {
  for (const auto& [key, args] : {std::pair("thread_name", Json{{"name", name}}),
                                  {"thread_sort_index", Json{{"sort_index", tid}}}})
    add({{"ph", "M"}, {"name", key}, {"pid", pid}, {"tid", tid}, {"args", args}});
}

void TraceEvents::slice(int pid, int tid, const std::string& name, const char* category,
                        double start, double end, const Json& arguments) {
  // Perfetto rounds start and duration to nanoseconds, each for itself, so that of two slices that
  // meet one may seem to begin before the other ends. Then a kernel or message begins later, and
  // what adds up to a number of the report moves as it is.
  const auto nanoseconds = [](double seconds) { return std::llround(1e9 * seconds); };
  long long& last = ends_[{pid, tid}];
  if (nanoseconds(start) == last - 1) {
    const double later = 1e-9 * static_cast<double>(last);
    const std::string_view kind = category;
    if (kind == "exposed" || kind == "bubble") end += later - start;
    start = later;
  }
  last = nanoseconds(start) + nanoseconds(end - start);
  add({{"ph", "X"},
       {"name", name},
       {"cat", category},
       {"pid", pid},
       {"tid", tid},
       {"ts", 1e6 * start},
       {"dur", 1e6 * (end - start)},
       {"args", arguments}});
}

void TraceEvents::counter(int pid, const std::string& name, double at, const char* unit,
                          double value) {
  add({{"ph", "C"}, {"name", name}, {"pid", pid}, {"ts", 1e6 * at}, {"args", {{unit, value}}}});
}

std::string TraceEvents::file(const Json& facts) const {
  return "{\"displayTimeUnit\": \"ms\",\n\"otherData\": " +
         facts.dump(-1, ' ', false, Json::error_handler_t::replace) +
         ",\n\"schemaVersion\": 1,\n\"distributedInfo\": {\"rank\": 0},\n\"traceEvents\": [\n" +
         events_ + "\n]}\n";
}

const char* nccl_kernel(Collective collective) {
  switch (collective) {
    case Collective::all_reduce: return "ncclDevKernel_AllReduce";
    case Collective::reduce_scatter: return "ncclDevKernel_ReduceScatter";
    case Collective::all_gather: return "ncclDevKernel_AllGather";
    case Collective::broadcast: return "ncclDevKernel_Broadcast";
    case Collective::all_to_all: break;
  }
  return "ncclDevKernel_SendRecv";
}

const char* work_words(Work work) {
  switch (work) {
    case Work::forward: return "forward";
    case Work::backward: return "backward";
    case Work::optimizer: return "optimizer";
    case Work::collective: break;
  }
  return "collective";
}

const TracedCollective* traced_of(const Prediction& p, const Activity& a) {
  if (a.work != Work::collective) return nullptr;
  for (const TracedCollective& t : p.traced)
    if (t.kind == a.stream && t.elements == a.elements) return &t;
  return nullptr;
}

std::vector<ExposedSpan> exposed_spans(const Step& step) {
  std::vector<ExposedSpan> spans;
  Seconds done;  // up to here
  const auto add = [&](const char* why, Seconds start, Seconds end) {
    if (end > start) spans.push_back({why, start, end});
  };
  for (const Activity& a : step.activities) {
    if (a.work == Work::collective) continue;
    add("computing waits", done, a.start);
    // Where computing is slowed, by how much, at the end of what is slowed.
    add("computing is slowed", a.start + a.alone, a.end);
    done = a.end;
  }
  add("computing waits", done, step.bubble_start());
  return spans;
}

namespace {

constexpr int kGpu = 0, kLinks = 1;
constexpr int kExposedRow = static_cast<int>(kStreams), kBubbleRow = kExposedRow + 1,
              kOverheadRow = kBubbleRow + 1;

/// As NCCL's kernel is named in a profile, or both where one has two parts. A pipeline's stages
/// send to one another.
std::string kernel_words(Stream kind, const ShardingPlan& plan) {
  if (kind == Stream::tensor && plan.sequence == Sequence::divided)
    return fmt::format("{} + {}", nccl_kernel(Collective::reduce_scatter),
                       nccl_kernel(Collective::all_gather));
  return nccl_kernel(kind == Stream::pipeline ? Collective::all_to_all : collective_of(kind));
}

void add_activity(TraceEvents& events, const Prediction& p, const Activity& a) {
  Json args = {{"stream", static_cast<int>(a.stream)}, {"device", 0}};
  if (p.accumulation > 1) args["micro_batch"] = a.micro_batch;
  if (!a.unit.empty()) args["unit"] = a.unit;
  const int row = static_cast<int>(a.stream);
  if (a.work != Work::collective) {
    args["alone_us"] = 1e6 * a.alone.value;
    events.slice(kGpu, row, work_words(a.work) + (a.unit.empty() ? "" : " " + a.unit), "kernel",
                 a.start.value, a.end.value, args);
    return;
  }
  if (p.sharding.is_ddp()) args["bucket"] = a.index;
  if (const TracedCollective* t = traced_of(p, a))
    args.update({{"bytes", t->bytes.value}, {"algorithm", schedule_words(t->schedule)}});
  args["alone_us"] = 1e6 * a.alone.value;
  const std::string of = !a.unit.empty()       ? a.unit
                         : p.sharding.is_ddp() ? fmt::format("bucket {}", a.index)
                                               : std::string("root");
  events.slice(kGpu, row, fmt::format("{} {}", kernel_words(a.stream, p.sharding), of), "kernel",
               a.start.value, a.end.value, args);
}

/// Each class's rate: the sum of what runs, at every moment at which that changes.
Json add_links(TraceEvents& events, const Prediction& p) {
  struct Use {
    double start, end, bytes;
  };
  std::map<std::string, std::vector<Use>> classes;
  for (const Activity& a : p.step.activities)
    if (const TracedCollective* t = a.work == Work::collective ? traced_of(p, a) : nullptr)
      for (const LinkLoad& load : t->loads)
        if (a.end > a.start) classes[load.link].push_back({a.start.value, a.end.value, load.bytes});
  Json bytes = Json::object();
  for (const auto& [link, uses] : classes) {
    std::set<double> moments{0};
    double all = 0;
    for (const Use& u : uses) {
      moments.insert({u.start, u.end});
      all += u.bytes;
    }
    for (const double at : moments) {
      double rate = 0;
      for (const Use& u : uses)
        if (u.start <= at && at < u.end) rate += u.bytes / (u.end - u.start);
      events.counter(kLinks, link, at, "GB/s", rate * 1e-9);
    }
    bytes[link] = all;
  }
  return bytes;
}

}  // namespace

std::string trace_of(const Prediction& p) {
  TraceEvents events;
  events.process(kGpu, fmt::format("the slowest of {} GPUs on {}", p.gpus,
                                   cluster_words(std::to_string(p.nodes), p.instance)));
  std::set<Stream> streams{Stream::compute};
  for (const Activity& a : p.step.activities) streams.insert(a.stream);
  for (const Stream s : streams) events.row(kGpu, static_cast<int>(s), word_of(s, p.sharding));
  events.row(kGpu, kExposedRow, "exposed communication");
  for (const Activity& a : p.step.activities)
    if (a.end > a.start) add_activity(events, p, a);
  for (const ExposedSpan& e : exposed_spans(p.step))
    events.slice(kGpu, kExposedRow, e.why, "exposed", e.start.value, e.end.value);
  if (p.step.bubble.value > 0) {
    events.row(kGpu, kBubbleRow, "pipeline bubble");
    events.slice(kGpu, kBubbleRow, "the other stages fill and drain", "bubble",
                 p.step.bubble_start().value, (p.step.total - p.step.overhead).value);
  }
  if (p.step.overhead.value > 0) {
    const bool waits = p.step.input_wait.value > 0;
    events.row(kGpu, kOverheadRow, waits ? "wait for input" : "step overhead");
    events.slice(kGpu, kOverheadRow,
                 waits ? "no GPU computes (input_rate)" : "no GPU computes (step_overhead)",
                 "overhead", (p.step.total - p.step.overhead).value, p.step.total.value);
  }
  events.process(kLinks, "the busiest link of each class");
  Json facts = report_head("trace");
  facts["link_bytes"] = add_links(events, p);
  facts["point"] = point_report(p, Cost::left_out);
  return events.file(facts);
}

}  // namespace foreduce
