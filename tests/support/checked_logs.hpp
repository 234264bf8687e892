// Logs of nccl-tests as `check` judges them, and with other times.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "scenarios/report/check_words.hpp"
#include "scenarios/validation/diagnosis.hpp"

namespace foreduce::test {

inline const std::filesystem::path kLogs =
    std::filesystem::path(FOREDUCE_SOURCE_FOLDER) / "tests" / "logs";

inline NcclLog p4d_log() { return load_nccl_log(kLogs / "dlami_p4d_2n.txt"); }
inline NcclLog one_efa_log() { return load_nccl_log(kLogs / "skypilot_p4d_2n_one_efa.txt"); }

/// The p4d log with other times: `change` gets bytes, seconds and the floor, the time of the
/// smallest size.
inline NcclLog changed(
    const std::function<double(double bytes, double time, double floor)>& change) {
  NcclLog log = p4d_log();
  const double floor = log.tables[0].rows[0].timing().time.value;
  for (NcclRow& r : log.tables[0].rows)
    r.out_of_place->time = Seconds{change(r.bytes, r.out_of_place->time.value, floor)};
  return log;
}

inline CheckedTable checked(const NcclLog& log, const std::string& instance = "p4d.24xlarge",
                            int nodes = 0, const std::string& without = "") {
  return check(log, {instance, nodes, HealthyFrom::published, without}, BatchOptions{}).at(0);
}

/// "what [evidence]; what …", best first.
inline std::string causes_of(const CheckedTable& t) {
  std::string all;
  for (const Cause& c : t.causes)
    all += what_words(c.finding) +
           (c.finding.evidence ? " [" + evidence_words(c.finding) + "]" : "") + "; ";
  return all;
}

/// A log with all times from 1 MiB on multiplied.
inline NcclLog slower(const std::string& file, double factor, double from = 1 << 20) {
  NcclLog log = load_nccl_log(kLogs / (file + ".txt"));
  for (NcclRow& r : log.tables[0].rows)
    if (r.bytes >= from) r.out_of_place->time = r.out_of_place->time * factor;
  return log;
}

}  // namespace foreduce::test
