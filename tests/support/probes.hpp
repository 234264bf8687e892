// What `foreduce calibrate --keep` writes, without a measurement.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>

namespace foreduce::test {

/// A report of every kind of message over both paths. `seconds` says how long one takes, of its
/// place among the sizes and its bytes.
inline std::string probe_report(const std::function<double(int place, double bytes)>& seconds) {
  std::string points;
  for (const char* kind : {"exchange", "burst", "reduce"})
    for (const char* path : {"network", "memory"})
      for (int place = 0; place < 12; ++place) {
        const int bytes = 4096 << place;
        points +=
            fmt::format(R"({}{{"kind":"{}","path":"{}","bytes":{},"fan":1,"samples_s":[{}]}})",
                        points.empty() ? "" : ",", kind, path, bytes, seconds(place, bytes));
      }
  return R"({"foreduce_version":"1","kind":"probe","points":[)" + points + "]}";
}

}  // namespace foreduce::test
