// One rank of a timed run: its data, and what all ranks do together around what is timed.
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "algorithms/core/registry.hpp"
#include "real/baseline.hpp"
#include "real/session.hpp"

namespace foreduce {

/// How many messages one rank may send another in one collective: a segment of every chunk, on
/// every channel.
std::size_t messages_to_one(const Layout& layout, const Plan& plan);

/// A rank's data: in host memory, or on its device with a copy in host memory that can be filled
/// and read.
class RankData {
 public:
  RankData(HostRank& rank, std::size_t bytes) : device_(rank.device()), on_host_(bytes) {
    if (device_) on_device_ = device_->allocate(bytes);
  }
  /// The host's copy: to be filled before push(), and to be read after pull().
  std::byte* on_host() { return on_host_.data(); }
  /// What verbs work on.
  std::byte* data() { return device_ ? on_device_.get() : on_host_.data(); }
  void push(std::size_t bytes);
  void pull(std::size_t bytes);
  /// The elements of `range`, whose base does not count. On a device the copy is only started.
  void copy(RankData& from, const Buffer& range);
  /// On a device only started, likewise.
  void clear(std::size_t bytes);
  void wait_for_copies() {
    if (device_) device_->wait_for_copies();
  }

 private:
  RankDevice* device_;
  std::vector<std::byte> on_host_;
  std::shared_ptr<std::byte> on_device_;
};

/// One rank in the loop. Servers take part in every step, so that all ranks agree on the round.
class MeasuredRank {
 public:
  MeasuredRank(HostRank& rank, const Session& session);

  bool is_worker() const { return is_worker_; }
  /// Seconds of this rank's clock.
  double now() const { return transport(everyone_).now(); }
  /// Element-wise maximum or sum of few numbers over all ranks. Servers take part, since a server
  /// that is idle during the rows of other algorithms would time out.
  void combine(std::span<double> values, Op op);
  /// Makes this worker a rank of the baseline; servers get null.
  std::unique_ptr<BaselineRank> join(Baseline& baseline, double timeout_s);
  /// Measures how far this rank's clock is ahead of rank 0's, from the quickest of some round trips
  /// (Cristian 1989). Must be repeated, because clocks drift.
  void compare_clocks();
  /// Returns at the same moment on all ranks. After a barrier alone they would start one after the
  /// other, and end later.
  void start_together();
  /// The ranks that run the algorithm: all workers, with the servers if it uses them.
  Transport transport_for(const Algorithm& algorithm) const {
    return transport(algorithm.uses_servers ? everyone_ : workers_);
  }
  /// Runs one collective to its end.
  void run(const Algorithm& algorithm, const Plan& plan, Buffer data);

 private:
  Transport transport(const Layout& layout) const { return Transport(rank_, layout, rank_.rank()); }
  std::string broadcast(const std::string& text);

  HostRank& rank_;
  const Layout& workers_;
  const Layout& everyone_;
  const Layout equal_ranks_;
  bool is_worker_;
  const Algorithm& combining_;
  static constexpr double kUnknown = std::numeric_limits<double>::infinity();
  double ahead_ = 0, quickest_barrier_ = kUnknown;  // seconds
};

}  // namespace foreduce
