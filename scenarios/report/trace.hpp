// A training step or a collective as a trace: Chrome's trace event format, which Perfetto and
// chrome://tracing open ("Trace Event Format", Google, 2016).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/report/report.hpp"

namespace foreduce {

/// The events of one trace, as they are added. Times are seconds; the file has microseconds.
class TraceEvents {
 public:
  /// Rows are sorted by their numbers. A process has a name, and a row (thread) of it.
  void process(int pid, const std::string& name);
  void row(int pid, int tid, const std::string& name);
  /// Something on a row from `start` to `end`. `category`: kernel, for what a GPU runs.
  void slice(int pid, int tid, const std::string& name, const char* category, double start,
             double end, const Json& arguments = Json::object());
  /// From `at` on the counter has this value, until it is given another.
  void counter(int pid, const std::string& name, double at, const char* unit, double value);
  /// The whole file, with facts about it.
  std::string file(const Json& facts) const;

 private:
  void add(const Json& event);
  std::string events_;
  std::map<std::pair<int, int>, long long> ends_;  // of each row's last slice, in nanoseconds
};

/// NCCL's kernel of a collective, as a profile of its library names it. Tools for such profiles
/// tell communication from computing by this name.
const char* nccl_kernel(Collective collective);

/// "forward", "collective".
const char* work_words(Work work);

/// Where computing waits for communication, or is slowed by it and by how much: of a step that was
/// recorded. Together exposed_communication.
struct ExposedSpan {
  const char* why;
  Seconds start, end;
};
std::vector<ExposedSpan> exposed_spans(const Step& step);

/// The collective that an activity of a recorded step is; null for computing.
const TracedCollective* traced_of(const Prediction& point, const Activity& activity);

/// A step that was recorded: what the slowest GPU computes, its collectives, what of them is
/// exposed, and what they put on the links. The slices of the row "exposed communication" add up to
/// exposed_communication_s. A counter of a class of links is its busiest link's average rate while
/// a collective runs, and its integral the bytes that `facts.link_bytes` has.
std::string trace_of(const Prediction& point);
/// A collective that was recorded: its kernel on rank 0, the messages of every simulated rank, a
/// row a connection, and what the busiest link of each class carries over time. Where ranks are
/// alike, some stand for all.
std::string trace_of(const Comparison& point);

}  // namespace foreduce
