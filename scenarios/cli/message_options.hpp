// A question about collectives: a scenario file with messages, or options that make one.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/sweep/scenario.hpp"

namespace foreduce {

/// How many points the options make: explain is about one.
enum class MessagePoints : std::uint8_t { many, one };

/// The options of compare and explain that say what is asked.
struct MessageOptions {
  explicit MessageOptions(MessagePoints points = MessagePoints::many) : points_(points) {}

  std::string scenario, nodes, gpus_per_node, collective = "all_reduce", sizes, dtype = "f32",
                                              inner = kUsualInner, profile = "auto",
                                              protocol = "auto", bound = "groups";
  /// Where none are given; the second where every rank has a block of its own: of 16 B for each of
  /// 4,096 ranks.
  std::string usual_sizes = "8B:1GiB:x8", usual_sizes_of_blocks = "64KiB:1GiB:x4";
  std::vector<std::string> algorithms, instances, set;
  int segments = 0, channels = 0, nccl_channels = 0;
  std::string nccl_version, nccl_algo, nccl_proto, nccl_buffsize, timed_by = "nccl-tests";

  void add_to(CLI::App& command);
  MessagePoints points() const { return points_; }
  /// Of the file, or of the options. Throws InputError.
  Scenario asked() const;

 private:
  /// Of --collective's words.
  Collective kind() const { return *collective_named(collective); }
  NcclSpec nccl() const;
  Scenario made() const;
  void check_what_acts() const;
  std::string sizes_or_default() const;

  MessagePoints points_;
  std::string command_;
};

}  // namespace foreduce
