// Questions that matter only where another one's answer is slow: which of them are simulated.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "input/units.hpp"
#include "sim/readiness.hpp"

namespace foreduce {

/// A question that is simulated only where question `to` takes longer than `least`.
struct Alternative {
  std::size_t to = 0;  ///< the other question
  Seconds least;       ///< a lower bound on the time of this question itself
};

/// All that were asked, by their numbers.
class Alternatives {
 public:
  /// What is known of a question.
  struct Answer {
    bool known = false;     ///< it has ended, well or not, or is needless
    bool needless = false;  ///< it was not simulated
    Seconds time;           ///< 0: it has none
  };
  using AnswerTo = std::function<Answer(std::size_t number)>;

  /// `family`: all that the two questions are, but for their size. `count`: elements.
  void add(std::size_t number, const Alternative& alternative, const std::string& family,
           std::size_t count);
  /// It is wanted for itself, too.
  void remove(std::size_t number);
  bool contains(std::size_t number) const { return all_.contains(number); }
  /// What it is an alternative to; itself if to nothing.
  std::size_t stands_for(std::size_t number) const;

  /// To be called when all are added: says what each depends on. Of a family these are the least
  /// and the most elements for the one in the middle, then these three for those halfway between.
  void arrange();
  /// Not yet, while something that it depends on is not known. Needless is what cannot be faster,
  /// and what is slower for a little more and a little less data.
  Readiness readiness(std::size_t number, const AnswerTo& answer_to) const;

 private:
  struct One {
    Alternative alternative;
    std::string family;
    std::size_t count = 0;
    std::optional<std::size_t> fewer, more;  // alternatives that it depends on
  };
  /// Whether it turned out clearly slower than what it is an alternative to.
  bool lost(std::size_t number, const AnswerTo& answer_to) const;

  std::map<std::size_t, One> all_;
};

}  // namespace foreduce
