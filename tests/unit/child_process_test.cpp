// Work in child processes: what becomes of tasks that follow each other in one of them.
#include "sim/child_process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace foreduce {
namespace {

/// From now on this process does not wait for whoever reads from it.
void write_without_waiting() {
  for (int fd = 3; fd < 64; ++fd)
    if (const int flags = ::fcntl(fd, F_GETFL); flags >= 0)
      ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

// What followed was taken for the rest of it.
TEST(ChildProcess, HalfAnAnswerIsNoneAndTheOthersAreWhole) {
  constexpr std::size_t kMoreThanAPipeHolds = std::size_t{1} << 24;
  std::vector<ChildResult> results(3);
  ChildOptions options;
  options.tasks_each = results.size();
  options.most_seconds = 20;
  run_in_children(
      {[] { return nlohmann::json(1); },
       [] {
         write_without_waiting();
         return nlohmann::json(std::string(kMoreThanAPipeHolds, 'x'));
       },
       [] { return nlohmann::json(3); }},
      [&](std::size_t task, ChildResult result) { results[task] = std::move(result); }, options);
  EXPECT_EQ(results[0].value, 1);
  EXPECT_FALSE(results[1].ok);
  EXPECT_EQ(results[1].error, "ended with status 1 and no answer");
  EXPECT_EQ(results[2].value, 3);
}

}  // namespace
}  // namespace foreduce
