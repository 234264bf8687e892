// The events of a Kineto trace, one after another.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace foreduce {

/// What foreduce reads of an event of the Trace Event Format with a duration (ph: X).
struct TraceEvent {
  std::string category, name;
  std::string thread;              ///< as it is written
  double start = 0, duration = 0;  ///< µs
  long long correlation = -1;      ///< between a launch and its kernel
  std::string collective, type;
  double elements = -1;
  int group = 0;
};

/// What a trace says outside of its events.
struct TraceHead {
  std::string gpu;
  int rank = -1, world = 0;
};

/// Calls `each` for every event in the file's order, and returns the rest. Keeps one event at a
/// time. Throws InputError as load_trace does.
TraceHead read_trace_events(const std::filesystem::path& file,
                            const std::function<void(const TraceEvent&)>& each);

}  // namespace foreduce
