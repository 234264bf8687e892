// Work in child processes: what becomes of tasks that follow each other in one of them.
#include "sim/child_process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace foreduce {
namespace {

using namespace std::chrono_literals;

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

TEST(ChildProcess, LeavesOutWhatIsNotNeededWhenItsTurnComes) {
  std::vector<std::function<nlohmann::json()>> work;
  for (std::size_t i = 0; i < 6; ++i) work.emplace_back([i] { return nlohmann::json(i); });
  std::vector<std::size_t> done;
  ChildOptions options;
  options.tasks_each = work.size();
  options.readiness = [&](std::size_t task) {
    return task % 2 == 0 ? Readiness::ready : Readiness::needless;
  };
  run_in_children(
      work,
      [&](std::size_t task, ChildResult result) {
        EXPECT_EQ(result.value, task);
        done.push_back(task);
      },
      options);
  EXPECT_EQ(done, (std::vector<std::size_t>{0, 2, 4}));
}

// A child has its next task before it has done the last one; if it ends, others do that task.
TEST(ChildProcess, DeathOfOneLosesNoTaskButItsOwn) {
  constexpr std::size_t kTasks = 50, kDeadly = 7;
  std::vector<std::function<nlohmann::json()>> work;
  for (std::size_t i = 0; i < kTasks; ++i)
    work.emplace_back([i] {
      if (i == kDeadly) ::raise(SIGKILL);
      return nlohmann::json(i);
    });
  for (const int jobs : {1, 2, 5}) {
    std::vector<ChildResult> results(kTasks);
    ChildOptions options;
    options.jobs = jobs;
    options.tasks_each = kTasks / 3;
    run_in_children(
        work, [&](std::size_t task, ChildResult result) { results[task] = std::move(result); },
        options);
    for (std::size_t i = 0; i < kTasks; ++i) {
      SCOPED_TRACE(testing::Message() << i << " of " << jobs << " jobs");
      if (i == kDeadly) EXPECT_EQ(results[i].error, "killed by signal 9 (Killed)");
      else EXPECT_EQ(results[i].value, i) << results[i].error;
    }
  }
}

// The next task could not be given to it, and was dropped with all that followed.
TEST(ChildProcess, DeathBetweenTasksLosesNone) {
  std::vector<std::function<nlohmann::json()>> work;
  for (int i = 0; i < 3; ++i) work.emplace_back([] { return nlohmann::json(::getpid()); });
  std::vector<ChildResult> results(work.size());
  ChildOptions options;
  options.tasks_each = work.size();
  run_in_children(
      work,
      [&](std::size_t task, ChildResult result) {
        results[task] = std::move(result);
        if (task > 0) return;
        ::kill(results[0].value.get<pid_t>(), SIGKILL);
        std::this_thread::sleep_for(100ms);
      },
      options);
  for (const ChildResult& r : results) EXPECT_TRUE(r.ok) << r.error;
  EXPECT_NE(results[1].value, results[0].value);
}

// Tasks of 20 ms beside one of a second: of two children, one does the long one alone.
TEST(ChildProcess, FreeChildTakesWhatABusyOneHasNotBegun) {
  std::vector<pid_t> done_by(8);
  std::vector<std::function<nlohmann::json()>> work;
  for (std::size_t i = 0; i < done_by.size(); ++i)
    work.emplace_back([i] {
      std::this_thread::sleep_for(i == 0 ? 1000ms : 20ms);
      return nlohmann::json(::getpid());
    });
  ChildOptions options;
  options.jobs = 2;
  options.tasks_each = work.size();
  run_in_children(
      work,
      [&](std::size_t task, const ChildResult& result) {
        done_by[task] = result.value.get<pid_t>();
      },
      options);
  for (std::size_t i = 2; i < done_by.size(); ++i) EXPECT_EQ(done_by[i], done_by[1]);
  EXPECT_NE(done_by[0], done_by[1]);
}

}  // namespace
}  // namespace foreduce
