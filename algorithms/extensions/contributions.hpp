// What a chunk holds, in place of numbers: whose contributions, and of which chunk.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithms/extensions/msccl.hpp"

namespace foreduce {

/// A sum as a set: how often each rank's chunk is in it.
class Contributions {
 public:
  /// Nobody's: memory that holds no data yet.
  Contributions() = default;
  /// One rank's own chunk.
  Contributions(int rank, int chunk) : terms_{{rank, chunk, 1}} {}
  /// What belongs into chunk `chunk` of `rank` when the collective has ended, or nothing if that is
  /// undefined.
  static std::optional<Contributions> wanted(const MscclProgram& program, int rank, int chunk);
  /// What is there at first.
  static Contributions given(const MscclProgram& program, int rank, int chunk);

  Contributions& operator+=(const Contributions& other);
  bool operator==(const Contributions&) const = default;
  /// Different chunks of different ranks in it.
  std::size_t size() const { return terms_.size(); }
  /// What is wrong with these where others belong: "the data of GPU 3 are missing".
  std::string difference(const Contributions& wanted) const;

 private:
  struct Term {
    int rank = 0, chunk = 0, times = 0;
    bool operator==(const Term&) const = default;
  };
  std::vector<Term> terms_;  // by rank and chunk
  bool undefined_ = false;   // something undefined was added
};

}  // namespace foreduce
