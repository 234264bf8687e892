// Processes of a run on this machine: how they are started, and how all of them end.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>

#include "real/keep_signals.hpp"
#include "real/launch.hpp"
#include "real/process_end.hpp"

namespace foreduce {
namespace {

using Clock = std::chrono::steady_clock;

/// How long processes have to end after the first one: stopped ones, which cannot know of it, and
/// others, which learn of a failure from the rendezvous.
constexpr std::chrono::seconds kStopTime{3}, kEndTime{15};

/// Closes a descriptor at the end of a scope.
struct Descriptor {
  int number = -1;
  ~Descriptor() { close(); }
  void close() {
    if (number >= 0) ::close(number);
    number = -1;
  }
};

/// A socket that listens on a free port of 127.0.0.1.
struct Listener {
  explicit Listener(int queue) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    socket.number = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket.number < 0 ||
        ::bind(socket.number, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(socket.number, queue) != 0 ||
        ::getsockname(socket.number, reinterpret_cast<sockaddr*>(&address), &length) != 0)
      throw std::system_error(errno, std::generic_category(), "cannot listen on 127.0.0.1");
    port = ::ntohs(address.sin_port);
  }
  Descriptor socket;
  int port = 0;
};

/// Tells all children which of them has ended first. They share one pipe, from which each reads one
/// record; 4096 of these are half of what a pipe holds.
class News {
 public:
  News() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
      throw std::system_error(errno, std::generic_category(), "no pipe to the processes");
    read_.number = ends[0];
    write_.number = ends[1];
  }
  int descriptor() const { return read_.number; }
  /// In a child, which only reads.
  void only_read() { write_.close(); }
  void tell(const ProcessEnd& end, std::size_t readers) {
    for (std::size_t i = 0; i < readers && write_.number >= 0; ++i)
      if (::write(write_.number, &end, sizeof end) != sizeof end) break;
    write_.close();
  }

 private:
  Descriptor read_, write_;
};

/// Blocks the signals that a parent waits for, so that none is lost between two calls of
/// sigwaitinfo.
class BlockedSignals {
 public:
  BlockedSignals() {
    ::sigemptyset(&watched_);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) ::sigaddset(&watched_, signal);
    ::sigprocmask(SIG_BLOCK, &watched_, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  ~BlockedSignals() { restore(); }
  void restore() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  /// The next signal; 0 after so many milliseconds without one.
  int wait(std::optional<int> milliseconds) const {
    if (!milliseconds) return ::sigwaitinfo(&watched_, nullptr);
    const timespec time{*milliseconds / 1000, *milliseconds % 1000 * 1'000'000};
    return std::max(0, ::sigtimedwait(&watched_, nullptr, &time));
  }

 private:
  sigset_t watched_, before_;
};

using Children = std::map<pid_t, int>;  // pid → process

/// Runs `work` in a child and ends it.
[[noreturn]] void run_child(const ProcessPlace& place, pid_t parent, const BlockedSignals& signals,
                            const std::function<int(const ProcessPlace&)>& work) {
  for (const int signal : {SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);
  signals.restore();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(137);
  int status = 1;
  try {
    status = work(place);
  } catch (const std::exception& e) {
    fmt::print(stderr, "process {}: {}\n", place.process, e.what());
  }
  std::fflush(nullptr);
  ::_exit(status);
}

/// Whether a signal (SIGSTOP, Ctrl-Z) has stopped the process. One that a debugger holds is not.
bool is_stopped(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  std::getline(file, line);
  const auto name_ends = line.rfind(')');
  return name_ends != std::string::npos && line.substr(name_ends).starts_with(") T");
}

/// Kills those who will not end by themselves: stopped processes, and after a failure all that are
/// still there. Adds them to `killed`.
void end_laggards(const Children& children, Clock::duration since_first_end, int worst,
                  std::set<pid_t>& killed) {
  if (since_first_end < kStopTime) return;
  for (const auto& [pid, process] : children) {
    const bool stopped = is_stopped(pid);
    if (killed.contains(pid) || (!stopped && (worst == 0 || since_first_end < kEndTime))) continue;
    fmt::print(stderr, "process {} {}, so it was killed\n", process,
               stopped
                   ? "was stopped by a signal while others ended"
                   : fmt::format("had not ended {} s after another one failed", kEndTime.count()));
    ::kill(pid, SIGKILL);
    killed.insert(pid);
  }
}

/// Removes what libfabric's shm provider leaves in /dev/shm if its process is killed. Its files are
/// called "<pid>:<number>:<number>".
void remove_shared_memory(pid_t process) {
  const std::string begin = fmt::format("{}:", process);
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", failed)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(begin) && name.find_first_not_of("0123456789:") == std::string::npos)
      ::unlink(entry.path().c_str());
  }
}

/// Waits until all children have ended. Passes SIGINT and SIGTERM on to them, and kills them if one
/// of these comes again.
int wait_for(Children children, const BlockedSignals& signals, News& news) {
  int worst = 0, stopped_by = 0;
  std::optional<Clock::time_point> first_end;
  std::set<pid_t> killed;
  while (!children.empty()) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    if (ended < 0) {  // somebody else has waited for them
      worst = std::max(worst, 1);
      break;
    }
    if (ended == 0) {
      const int signal = signals.wait(first_end ? std::optional(200) : std::nullopt);
      if (first_end) end_laggards(children, Clock::now() - *first_end, worst, killed);
      if (signal != SIGINT && signal != SIGTERM) continue;
      for (const auto& [pid, process] : children) ::kill(pid, stopped_by == 0 ? signal : SIGKILL);
      stopped_by = signal;
      continue;
    }
    const auto found = children.find(ended);
    if (found == children.end()) continue;
    const ProcessEnd end{found->second, status};
    if (status != 0) remove_shared_memory(ended);
    if (!first_end) first_end = Clock::now();
    if (WIFSIGNALED(status) && stopped_by == 0 && !killed.contains(ended))
      fmt::print(stderr, "{}\n", end.text());
    news.tell(end, children.size() - 1);
    worst = std::max(worst, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    children.erase(found);
  }
  return stopped_by != 0 ? 128 + stopped_by : worst;
}

}  // namespace

int free_local_port() { return Listener(1).port; }

int spawn(int processes, const std::function<int(const ProcessPlace&)>& work) {
  // The socket listens before any child runs, so nobody else takes the port and no child connects
  // too early.
  Listener listener(processes);
  ProcessPlace place;
  place.processes = processes;
  place.port = listener.port;
  place.job = fmt::format("local {}", ::getpid());
  place.token = RunToken::random();
  News news;
  place.process_end_fd = news.descriptor();
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const KeepSignals keep;
  const BlockedSignals signals;
  ::signal(SIGCHLD,
           SIG_DFL);  // if our own parent had us ignore it, we would not learn of a child's end
  Children children;
  for (int p = 0; p < processes; ++p) {
    const pid_t child = ::fork();
    if (child < 0) {
      const int why = errno;
      for (const auto& [pid, process] : children) ::kill(pid, SIGKILL);
      for (const auto& [pid, process] : children) ::waitpid(pid, nullptr, 0);
      throw std::system_error(why, std::generic_category(), "cannot start another process");
    }
    if (child == 0) {
      place.process = p;
      place.node = p;
      place.listening_socket = p == 0 ? listener.socket.number : -1;
      if (p != 0) listener.socket.close();
      news.only_read();
      run_child(place, parent, signals, work);
    }
    children[child] = p;
  }
  listener.socket.close();
  return wait_for(std::move(children), signals, news);
}

}  // namespace foreduce
