// What a progress bar says of the time that work takes.
#pragma once

#include <cstddef>
#include <string>

namespace foreduce {

/// How fast the work goes. A command may do several batches, of which each has a pace of its own.
class Pace {
 public:
  /// `at_s`: seconds since any time. Another total, or fewer done than before, is another batch.
  void reached(std::size_t done, std::size_t total, double at_s);
  /// ", 2.5 a second, 12 s left", once several are done in several seconds; "" before.
  std::string words() const;

 private:
  std::size_t done_ = 0, total_ = 0, already_ = 0;  // already: before this batch's clock began
  double begun_s_ = 0, passed_s_ = 0;
};

}  // namespace foreduce
