// One collective whose time is wanted, and what tells it from others.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "models/nccl_schedule.hpp"
#include "sim/collective.hpp"

namespace foreduce {

/// One collective whose time is wanted.
struct Question {
  std::shared_ptr<const Cluster> cluster;
  Schedule schedule;
  std::size_t count = 0;  ///< elements of a rank
  Type type = Type::f32;
  RankGroups groups = {};  ///< every group runs it among its own ranks
  /// Another collective at the same time; the outcome then says when either ends. Such a pair is
  /// simulated whole, however long its pipelines are.
  std::optional<Beside> beside = {};
};

/// A question's elements when only `segments` of its segments travel, each about as long as before.
/// They divide among channels, GPUs and the trees of a double tree, for otherwise the symmetry of
/// the whole pipeline would be lost.
std::size_t shortened(const Question& question, int segments);
/// To be simulated with so many of its segments.
CollectiveCall call_of(const Question& question, int segments);

/// All that an answer depends on, where `cluster` and `profile` stand for theirs.
std::string key_of(const Question& question, const std::string& cluster,
                   const std::string& profile);
/// The same for this run alone, where objects are known by their addresses.
std::string key_of(const Question& question);
/// Equal for questions of as many messages, when so many of their segments travel.
std::string messages_key(const Question& question, int segments);

}  // namespace foreduce
