// The list of ranks that nccl-tests prints above its tables.
#pragma once

#include <map>
#include <string>

#include "scenarios/validation/nccl_log.hpp"
#include "scenarios/validation/nccl_words.hpp"

namespace foreduce {

/// The ranks of one run, as their lines come.
class RankList {
 public:
  /// Takes a line that begins with "Rank": its number, host, device and GPU. Whether it could be
  /// read.
  bool take(const nccl_words::Words& words);
  /// The same from elsewhere, where nothing tells a GPU's place on its host.
  void take(int rank, std::string host, std::string gpu);
  /// A row has been printed: another line of a rank begins the next run's list.
  void row_printed() { rows_printed_ = true; }
  void clear() { ranks_.clear(); }
  /// Whether ranks are listed behind the last row.
  bool is_behind_rows() const { return !ranks_.empty() && !rows_printed_; }
  /// A line names the test that begins, before its list or behind it: a list that rows have
  /// followed is of the test before.
  void test_begins() {
    if (rows_printed_) clear();
  }
  /// Says in `table` what the list tells of ranks, hosts and GPUs.
  void tell(NcclTable& table) const;

 private:
  struct Rank {
    std::string host;    ///< "": the log does not say
    std::string device;  ///< its number and bus address there
    std::string gpu;
    int group = 0;
  };
  void add(int rank, Rank r);
  /// How many hosts there are; 0: unknown.
  int hosts() const;
  std::string same_gpu() const;     // see NcclTable
  std::string mixed_words() const;  // likewise

  std::map<int, Rank> ranks_;
  std::map<int, int> times_listed_;  // since the last row
  bool rows_printed_ = false;        // since the list began
  std::string conflicting_hosts_;    // see NcclTable
};

}  // namespace foreduce
