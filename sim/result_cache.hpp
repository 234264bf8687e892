// Answers of earlier runs, on disk: the same simulation is never done twice by the same program.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "sim/collective.hpp"

namespace foreduce {

/// An answer as it is kept.
struct CachedAnswer {
  CollectiveResult result;  ///< without traffic and timeline
  bool extrapolated = false;
  double extrapolation_error = 0;
};

/// A folder with a file an answer. Its name holds everything that matters: the question, and which
/// build of the program answered. Safe under concurrent use: a file appears whole, under its name,
/// or not at all. A file that cannot be read or written is an answer that is not there. The first
/// answer of a build removes those of builds that have kept none for kDaysOfOtherBuilds.
class ResultCache {
 public:
  /// Below `folder`, which need not exist. Empty: nothing is kept.
  explicit ResultCache(std::filesystem::path folder);
  bool in_use() const { return !folder_.empty(); }
  std::optional<CachedAnswer> find(const std::string& question) const;
  void keep(const std::string& question, const CachedAnswer& answer) const;

 private:
  std::filesystem::path file_of(const std::string& question) const;
  std::filesystem::path folder_;  // of this build; empty: none
};

/// What a folder of answers holds, of all builds.
struct CacheContents {
  std::size_t answers = 0;
  Bytes bytes;
  std::size_t answers_of_this_build = 0;
};
/// How long a build's answers stay that no run adds to: only the same program finds them.
inline constexpr int kDaysOfOtherBuilds = 30;

/// Why no answer can be kept in a folder, which need not exist; "" where it can.
std::string why_nothing_is_kept(const std::filesystem::path& folder);
/// Nothing of a folder that is not there or cannot be read.
CacheContents cache_contents(const std::filesystem::path& folder);
/// Answers that were removed, and those that could not be.
struct RemovedAnswers {
  std::size_t removed = 0, left = 0;
  std::string why_left;  ///< what the system said of the first one that is left
};
/// Removes all answers; nothing else that may be in the folder.
RemovedAnswers clear_cache(const std::filesystem::path& folder);

/// $FOREDUCE_CACHE, else foreduce below $XDG_CACHE_HOME, else ~/.cache/foreduce; empty for
/// FOREDUCE_CACHE=off and where there is no home.
std::filesystem::path cache_folder();

}  // namespace foreduce
