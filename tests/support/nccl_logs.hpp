// nccl-tests' output for tests: the logs that ship, and one as a recent version prints it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "algorithms/core/collective.hpp"
#include "scenarios/validation/nccl_log.hpp"
#include "tests/support/errors.hpp"

namespace foreduce::test {

inline const std::filesystem::path kLogs =
    std::filesystem::path(FOREDUCE_SOURCE_FOLDER) / "tests" / "logs";

inline std::vector<std::filesystem::path> published_logs() {
  std::vector<std::filesystem::path> logs;
  for (const auto& entry : std::filesystem::directory_iterator(kLogs))
    if (entry.path().extension() == ".txt") logs.push_back(entry.path());
  std::sort(logs.begin(), logs.end());
  return logs;
}

inline constexpr const char* kHeading =
    R"(# nccl-tests version 2.17.6 nccl-headers=22703 nccl-library=22703
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
)";
inline constexpr char kDevice[] =
    "#  Rank {:2} Group  0 Pid {:6} on ip-10-0-0-{} device  {} [0000:{:02x}:1c] NVIDIA "
    "A100-SXM4-40GB\n";
inline constexpr const char* kTable =
    R"(#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    408.7    2.57    4.81      0    404.3    2.59    4.86      0
  1073741824     268435456     float     sum      -1    26416   40.65   76.21      0    26420   40.64   76.20    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 38.2
)";

/// What nccl-tests 2.17 prints on two p4d (shortened).
inline std::string recent_log() {
  std::string text = kHeading;
  for (int rank = 0; rank < 16; ++rank)
    text += fmt::format(kDevice, rank, 100 + rank, 1 + rank / 8, rank % 8, 16 + rank);
  return text + kTable;
}

/// The same with every line changed as launchers do.
inline std::string recent_log(const std::string& prefix, const std::string& line_end) {
  std::istringstream lines(recent_log());
  std::string text;
  for (std::string line; std::getline(lines, line);) text += prefix + line + line_end;
  return text;
}

/// A log with the last occurrence of `what` replaced.
inline std::string recent_log_with(const std::string& what, const std::string& instead) {
  std::string text = recent_log();
  return text.replace(text.rfind(what), what.size(), instead);
}

/// What the program of a collective prints on two p4d: counts of a rank's block, no operation where
/// nothing is reduced, and in place no result of an alltoall is checked.
inline std::string recent_log_of(Collective collective) {
  std::string text = recent_log();
  text = text.substr(0, text.find("     1048576"));
  text.replace(text.find("all_reduce"), 10, name_of(collective));
  for (const double bytes : {0.0, 1048576.0, 16777216.0, 1073741824.0}) {
    const double us = 50 + bytes / 40e3, algbw = bytes / us / 1e3,
                 busbw = algbw * bus_factor(collective, 16);
    text += fmt::format(
        "{:12.0f}  {:12.0f}     float  {:>6}  {:>6}  {:7.2f}  {:6.2f}  {:6.2f}      0  {:7.2f}  "
        "{:6.2f}  {:6.2f}  {:>5}\n",
        bytes, bytes / 4 / counted_blocks(collective, 16), reduces(collective) ? "sum" : "none",
        collective == Collective::broadcast ? 0 : -1, us, algbw, busbw, us, algbw, busbw,
        collective == Collective::all_to_all ? "N/A" : "0");
  }
  return text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 17.3 \n#\n";
}

inline std::string log_error_in(const std::string& text) {
  return error_of([&] { parse_nccl_log("x.txt", text); });
}

}  // namespace foreduce::test
