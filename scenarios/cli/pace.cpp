#include "scenarios/cli/pace.hpp"

#include <fmt/format.h>

namespace foreduce {

void Pace::reached(std::size_t done, std::size_t total, double at_s) {
  if (total != total_ || done < done_) {
    begun_s_ = at_s;
    already_ = done;
  }
  done_ = done;
  total_ = total;
  passed_s_ = at_s - begun_s_;
}

std::string Pace::words() const {
  constexpr double kLeastSeconds = 3;
  constexpr std::size_t kLeastDone = 4;
  if (done_ - already_ < kLeastDone || passed_s_ < kLeastSeconds) return "";
  const double each = passed_s_ / static_cast<double>(done_ - already_);
  return fmt::format(", {:.{}f} a second, {:.0f} s left", 1 / each, each > 1 ? 2 : 1,
                     each * static_cast<double>(total_ - done_));
}

}  // namespace foreduce
