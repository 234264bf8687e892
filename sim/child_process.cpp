#include "sim/child_process.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <system_error>

#include "algorithms/core/transport.hpp"

namespace foreduce {
namespace {

using Clock = std::chrono::steady_clock;

struct Child {
  std::size_t index = 0;
  pid_t pid = -1;
  int pipe = -1;
  std::vector<std::uint8_t> received;
  Clock::time_point begun;
};

void write_all(int fd, const std::vector<std::uint8_t>& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::write(fd, bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    at += static_cast<std::size_t>(n);
  }
}

/// Nothing where the system has no room for another process or pipe.
std::optional<Child> launch(std::size_t index, const std::function<nlohmann::json()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) return std::nullopt;
  std::fflush(nullptr);
  Child child{index, ::fork(), ends[0], {}, Clock::now()};
  if (child.pid < 0) {
    const int why = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    errno = why;
    return std::nullopt;
  }
  if (child.pid == 0) {
    ::close(ends[0]);
    // Ctrl-C goes to the whole group, and the parent decides; if the parent is gone, nobody wants
    // the answer.
    ::signal(SIGINT, SIG_IGN);
    ::signal(SIGTERM, SIG_DFL);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    nlohmann::json answer;
    try {
      answer = {{"value", work()}};
    } catch (const std::exception& e) {
      answer = {{"error", e.what()}};
    }
    write_all(ends[1], nlohmann::json::to_cbor(answer));
    ::_exit(0);  // no destructors: the engine's are the parent's business no more
  }
  ::close(ends[1]);
  return child;
}

ChildResult reap(Child& child) {
  ChildResult out;
  int status = 0;
  rusage used{};
  while (::wait4(child.pid, &status, 0, &used) < 0 && errno == EINTR) {
  }
  ::close(child.pipe);
  out.wall_seconds = std::chrono::duration<double>(Clock::now() - child.begun).count();
  out.peak_rss_bytes = static_cast<std::uint64_t>(used.ru_maxrss) * 1024;
  if (WIFSIGNALED(status)) {
    out.error =
        fmt::format("killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
    return out;
  }
  auto answer = nlohmann::json::from_cbor(child.received, true, false);
  if (answer.is_discarded() || !answer.is_object()) {
    out.error = fmt::format("ended with status {} and no answer", WEXITSTATUS(status));
  } else if (answer.contains("error")) {
    out.error = answer["error"].get<std::string>();
  } else {
    out.ok = true;
    out.value = std::move(answer["value"]);
  }
  return out;
}

}  // namespace

void run_in_children(const std::vector<std::function<nlohmann::json()>>& work, int jobs,
                     const std::function<void(std::size_t, ChildResult)>& finished,
                     const std::function<bool()>& stop, double most_seconds) {
  std::vector<Child> running;
  std::size_t next = 0;
  enum class End : std::uint8_t { itself, too_long };
  const auto ended = [&](std::size_t i, End end) {
    Child done = std::move(running[i]);
    running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
    if (end == End::too_long) ::kill(done.pid, SIGKILL);
    ChildResult result = reap(done);
    if (end == End::too_long)
      result = {false,
                {},
                fmt::format("not done after {} s (--point-timeout)", most_seconds),
                result.wall_seconds,
                result.peak_rss_bytes};
    finished(done.index, std::move(result));
  };
  while (next < work.size() || !running.empty()) {
    if (stop && stop()) break;
    while (next < work.size() && running.size() < static_cast<std::size_t>(std::max(1, jobs))) {
      std::optional<Child> child = launch(next, work[next]);
      if (!child && running.empty())
        throw std::system_error(errno, std::generic_category(), "no process can be started");
      if (!child) break;  // when another has ended there is room
      running.push_back(std::move(*child));
      ++next;
    }
    std::vector<pollfd> ready;
    for (const Child& c : running) ready.push_back({c.pipe, POLLIN, 0});
    if (::poll(ready.data(), ready.size(), 1000) < 0 && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "poll");
    for (std::size_t i = running.size(); i-- > 0;) {
      const std::chrono::duration<double> runs = Clock::now() - running[i].begun;
      if (ready[i].revents == 0) {
        if (most_seconds > 0 && runs.count() > most_seconds) ended(i, End::too_long);
        continue;
      }
      std::uint8_t buffer[65536];
      const ssize_t n = ::read(running[i].pipe, buffer, sizeof buffer);
      if (n > 0) {
        running[i].received.insert(running[i].received.end(), buffer, buffer + n);
      } else if (n == 0 || errno != EINTR) {
        ended(i, End::itself);
      }
    }
  }
  for (Child& c : running) {
    ::kill(c.pid, SIGKILL);
    reap(c);
  }
}

ChildResult run_in_child(const std::function<nlohmann::json()>& work) {
  ChildResult only;
  run_in_children({work}, 1, [&](std::size_t, ChildResult outcome) { only = std::move(outcome); });
  return only;
}

}  // namespace foreduce
