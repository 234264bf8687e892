// Questions that matter only where another one's answer is slow: which of them are simulated, and
// in which order.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "input/units.hpp"

namespace foreduce {

/// Of a question that matters only where another one takes longer than it may take itself.
struct Alternative {
  std::size_t to = 0;  ///< the other question
  Seconds least;       ///< it hardly takes less
};

/// All that were asked, by their numbers.
class Alternatives {
 public:
  /// The time of a question's answer; 0: it has none, or none yet.
  using TimeOf = std::function<Seconds(std::size_t number)>;

  /// `family`: all that the two questions are, but for their size. `count`: elements.
  void add(std::size_t number, const Alternative& alternative, const std::string& family,
           std::size_t count);
  /// It is wanted for itself, too.
  void remove(std::size_t number);
  bool contains(std::size_t number) const { return all_.contains(number); }
  /// What it is an alternative to; itself if to nothing.
  std::size_t stands_for(std::size_t number) const;

  /// Whether all is known that needless() depends on: what it is an alternative to, and those of
  /// its family that have an earlier turn.
  bool decidable(std::size_t number, const std::function<bool(std::size_t)>& known) const;
  /// Whether it need not be simulated: it cannot be faster, or the same alternative is slower for a
  /// few more and a few fewer elements that had an earlier turn.
  bool needless(std::size_t number, const TimeOf& time_of) const;
  /// In which turn it is simulated: 0 for what is no alternative, then the least and the most
  /// elements of each family, then those halfway between.
  int turn(std::size_t number) const;

 private:
  using Family = std::map<std::size_t, std::size_t>;  // number by count
  struct One {
    Alternative alternative;
    Family* family = nullptr;
    std::size_t count = 0;
  };
  /// Whether it was simulated and took clearly longer than what it is an alternative to.
  bool lost(std::size_t number, const TimeOf& time_of) const;

  std::map<std::size_t, One> all_;
  std::map<std::string, Family> families_;
};

}  // namespace foreduce
