#include "sim/child_process.hpp"

#include <fmt/format.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <new>
#include <optional>
#include <system_error>

#include "algorithms/core/transport.hpp"

namespace foreduce {
namespace {

using Clock = std::chrono::steady_clock;

struct Child {
  pid_t pid = -1;
  int socket = -1;                // tasks go out, answers come in
  std::deque<std::size_t> tasks;  // that it has not answered, the one at hand first
  std::size_t given = 0;          // tasks, of all
  bool dismissed = false;         // it has been told that there is no more
  bool gone = false;              // it could not be told anything
  bool failed = false;            // at a task: it does no more
  std::vector<std::uint8_t> received;
  Clock::time_point begun;         // the task at hand
  double last_seconds = HUGE_VAL;  // of the task before
};

constexpr const char* kUnreadable = "an answer that cannot be read";

/// Before each answer: its bytes.
using Length = std::uint64_t;

/// What a child is told instead of a task when there is no more.
constexpr std::size_t kNoMore = SIZE_MAX;

bool write_all(int fd, const std::vector<std::uint8_t>& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::write(fd, bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<std::size_t>(n);
  }
  return true;
}

/// The next task, or kNoMore, also where the parent cannot be heard.
std::size_t next_task(int socket) {
  std::size_t task = kNoMore;
  auto* into = reinterpret_cast<char*>(&task);
  for (std::size_t at = 0; at < sizeof task;) {
    const ssize_t n = ::read(socket, into + at, sizeof task - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return kNoMore;
    at += static_cast<std::size_t>(n);
  }
  return task;
}

/// A child that is gone hears nothing; that it is gone is found when its answers end.
bool tell(const Child& child, std::size_t task) {
  return ::send(child.socket, &task, sizeof task, MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof task);
}

/// The most memory that this process has had since the last call.
std::uint64_t peak_memory() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  if (const int refs = ::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC); refs >= 0) {
    [[maybe_unused]] const auto written = ::write(refs, "5", 1);  // else the most is of all tasks
    ::close(refs);
  }
  return static_cast<std::uint64_t>(used.ru_maxrss) * 1024;
}

/// What a child does. It never returns.
[[noreturn]] void work_as_child(const std::vector<std::function<nlohmann::json()>>& work,
                                int socket) {
  // Ctrl-C goes to the whole group, and the parent decides; if the parent is gone, nobody wants
  // the answer.
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGTERM, SIG_DFL);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The next task takes the memory of the last one, rather than new pages from the system.
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  peak_memory();
  bool failed = false;
  while (!failed) {
    const std::size_t task = next_task(socket);
    if (task == kNoMore) break;
    nlohmann::json answer;
    try {
      answer = {{"value", work[task]()}};
    } catch (const std::exception& e) {
      answer = {{"error", reason_of(e)}};
      failed = true;
    }
    answer["peak_rss"] = peak_memory();
    const std::vector<std::uint8_t> bytes = nlohmann::json::to_cbor(answer);
    const Length length = bytes.size();
    std::vector<std::uint8_t> head(sizeof length);
    std::memcpy(head.data(), &length, sizeof length);
    // After half an answer the next one could not be told from the rest of it.
    if (!write_all(socket, head) || !write_all(socket, bytes)) ::_exit(1);
  }
  ::_exit(0);  // no destructors: the engine's are the parent's business no more
}

/// Nothing where the system has no room for another process or socket.
std::optional<Child> launch(const std::vector<std::function<nlohmann::json()>>& work) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return std::nullopt;
  std::fflush(nullptr);
  Child child;
  child.pid = ::fork();
  if (child.pid < 0) {
    const int why = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    errno = why;
    return std::nullopt;
  }
  if (child.pid == 0) {
    ::close(ends[0]);
    work_as_child(work, ends[1]);
  }
  ::close(ends[1]);
  child.socket = ends[0];
  return child;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The next answer that has arrived whole.
std::optional<ChildResult> take_answer(Child& child) {
  Length length = 0;
  if (child.received.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, child.received.data(), sizeof length);
  const std::size_t end = sizeof length + length;
  if (child.received.size() < end) return std::nullopt;
  const auto begin = child.received.begin();
  const auto after = begin + static_cast<std::ptrdiff_t>(end);
  auto answer = nlohmann::json::from_cbor(begin + sizeof length, after, true, false);
  child.received.erase(begin, after);
  ChildResult out;
  out.wall_seconds = child.last_seconds = seconds_since(child.begun);
  child.begun = Clock::now();
  if (answer.is_discarded() || !answer.is_object()) {
    out.error = kUnreadable;
    child.failed = true;
    ::kill(child.pid, SIGKILL);
    return out;
  }
  out.peak_rss_bytes = answer["peak_rss"].get<std::uint64_t>();
  child.failed = answer.contains("error");
  if (child.failed) out.error = answer["error"].get<std::string>();
  else out.value = std::move(answer["value"]);
  out.ok = !child.failed;
  return out;
}

/// The child is gone, or must go; its task at hand has no answer.
ChildResult reap(Child& child) {
  ChildResult out;
  int status = 0;
  rusage used{};
  while (::wait4(child.pid, &status, 0, &used) < 0 && errno == EINTR) {
  }
  ::close(child.socket);
  out.wall_seconds = seconds_since(child.begun);
  out.peak_rss_bytes = static_cast<std::uint64_t>(used.ru_maxrss) * 1024;
  out.error =
      WIFSIGNALED(status)
          ? fmt::format("killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)))
          : fmt::format("ended with status {} and no answer", WEXITSTATUS(status));
  return out;
}

/// The children at work, and what is still to be done.
class Children {
 public:
  using Finished = std::function<void(std::size_t, ChildResult)>;
  Children(const std::vector<std::function<nlohmann::json()>>& work, const Finished& finished,
           const ChildOptions& options)
      : work_(work), finished_(finished), options_(options) {
    for (std::size_t i = 0; i < work.size(); ++i) waiting_.push_back(i);
  }

  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children() { end_all(); }

  void run() {
    while (!waiting_.empty() || !running_.empty()) {
      if (options_.stop && options_.stop()) break;
      hand_out();
      if (all_idle()) break;
      listen();
    }
  }

 private:
  /// What still waits will not begin.
  bool all_idle() const {
    return std::all_of(running_.begin(), running_.end(), [](const Child& child) {
      return child.tasks.empty() && !child.dismissed && !child.gone;
    });
  }

  /// Those that are still at work, also where `finished` throws.
  void end_all() {
    for (Child& c : running_) {
      ::kill(c.pid, SIGKILL);
      reap(c);
    }
    running_.clear();
  }

  /// The place of the first of those waiting that can begin.
  std::optional<std::size_t> next_ready() {
    for (std::size_t passed = 0; passed < waiting_.size();) {
      const auto at = waiting_.begin() + static_cast<std::ptrdiff_t>(passed);
      const Readiness task = options_.readiness ? options_.readiness(*at) : Readiness::ready;
      if (task == Readiness::ready) return passed;
      if (task == Readiness::not_yet) ++passed;
      else waiting_.erase(at);
    }
    return std::nullopt;
  }

  void hand_out() {
    const auto jobs = static_cast<std::size_t>(std::max(1, options_.jobs));
    for (Child& child : running_) supply(child);
    while (running_.size() < jobs && next_ready()) {
      std::optional<Child> child = launch(work_);
      if (!child && running_.empty())
        throw std::system_error(errno, std::generic_category(), "no process can be started");
      if (!child) break;  // when another has ended there is room
      running_.push_back(std::move(*child));
      supply(running_.back());
    }
  }

  /// Of short tasks, a child has the next one before it has done the last, so that it never waits.
  void supply(Child& child) {
    constexpr double kShort = 0.02;
    const bool ahead = child.last_seconds < kShort && waiting_.size() > 4 * running_.size();
    const std::size_t most = ahead ? 2 : 1;
    while (!child.failed && !child.dismissed && !child.gone && child.tasks.size() < most) {
      const auto next = next_ready();
      if (!next && !waiting_.empty()) break;  // it has more to do when another has ended
      const bool more = next && child.given < std::max<std::size_t>(1, options_.tasks_each);
      child.gone = !tell(child, more ? waiting_[*next] : kNoMore);
      if (child.gone) break;
      child.dismissed = !more;
      if (!more) break;
      if (child.tasks.empty()) child.begun = Clock::now();
      child.tasks.push_back(waiting_[*next]);
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(*next));
      ++child.given;
    }
  }

  void listen() {
    std::vector<pollfd> ready;
    for (const Child& c : running_) ready.push_back({c.socket, POLLIN, 0});
    if (::poll(ready.data(), ready.size(), 1000) < 0 && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "poll");
    for (std::size_t i = running_.size(); i-- > 0;) {
      Child& child = running_[i];
      if (ready[i].revents == 0) {
        if (options_.most_seconds > 0 && !child.tasks.empty() &&
            seconds_since(child.begun) > options_.most_seconds)
          kill_for(i, fmt::format("not done after {} s", options_.most_seconds));
        continue;
      }
      std::uint8_t buffer[65536];
      const ssize_t n = ::read(child.socket, buffer, sizeof buffer);
      if (n > 0) {
        child.received.insert(child.received.end(), buffer, buffer + n);
        while (auto answer =
                   child.tasks.empty() || child.failed ? std::nullopt : take_answer(child)) {
          const std::size_t task = child.tasks.front();
          child.tasks.pop_front();
          finished_(task, std::move(*answer));
        }
      } else if (n == 0 || errno == ECONNRESET) {  // the latter if it left a task unread
        ended(i);
      } else if (errno != EINTR) {
        kill_for(i, kUnreadable);
      }
    }
  }

  void kill_for(std::size_t i, const std::string& why) {
    ::kill(running_[i].pid, SIGKILL);
    ended(i, why);
  }

  /// The task at hand has no answer, because of `why` or as its child ended; what it has not begun
  /// is for others.
  void ended(std::size_t i, const std::string& why = "") {
    Child child = std::move(running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    ChildResult result = reap(child);
    if (!why.empty()) result.error = why;
    std::optional<std::size_t> lost;
    if (!child.failed && !child.tasks.empty()) {
      lost = child.tasks.front();
      child.tasks.pop_front();
    }
    waiting_.insert(waiting_.begin(), child.tasks.begin(), child.tasks.end());
    if (lost) finished_(*lost, std::move(result));
  }

  const std::vector<std::function<nlohmann::json()>>& work_;
  const Finished& finished_;
  const ChildOptions& options_;
  std::deque<std::size_t> waiting_;
  std::vector<Child> running_;
};

}  // namespace

std::string reason_of(const std::exception& e) {
  return dynamic_cast<const std::bad_alloc*>(&e) ? "there is not enough memory for this simulation"
                                                 : e.what();
}

void run_in_children(const std::vector<std::function<nlohmann::json()>>& work,
                     const std::function<void(std::size_t, ChildResult)>& finished,
                     const ChildOptions& options) {
  Children(work, finished, options).run();
}

ChildResult run_in_child(const std::function<nlohmann::json()>& work, double most_seconds) {
  ChildResult only;
  ChildOptions options;
  options.most_seconds = most_seconds;
  run_in_children(
      {work}, [&](std::size_t, ChildResult outcome) { only = std::move(outcome); }, options);
  return only;
}

}  // namespace foreduce
