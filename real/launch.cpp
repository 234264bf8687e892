#include "real/launch.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

#include "real/keep_signals.hpp"

namespace foreduce {
namespace {

int number(const char* name, const char* text, int at_least, int at_most) {
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stopped, failed] = std::from_chars(text, end, value);
  if (failed != std::errc{} || stopped != end || value < at_least || value > at_most)
    throw std::invalid_argument(
        fmt::format("{}: '{}' is not a number from {} to {}", name, text, at_least, at_most));
  return value;
}

/// "gpu[03-08],gpu12" → "gpu03".
std::string first_host(const std::string& list) {
  const auto bracket = list.find('[');
  if (bracket == std::string::npos || list.find(',') < bracket)
    return list.substr(0, list.find(','));
  return list.substr(0, bracket) +
         list.substr(bracket + 1, list.find_first_of(",-]", bracket) - bracket - 1);
}

/// Closes a descriptor at the end of a scope.
struct Descriptor {
  int number = -1;
  ~Descriptor() { close(); }
  void close() {
    if (number >= 0) ::close(number);
    number = -1;
  }
};

}  // namespace

std::optional<ProcessPlace> place_from_environment(
    const std::function<const char*(const char*)>& environment) {
  constexpr int kMany = 1 << 20;
  ProcessPlace place;
  const auto take = [&](const char* launcher, const char* rank, const char* size, const char* job) {
    const char* r = environment(rank);
    const char* n = environment(size);
    if (!r || !n) return false;
    place.processes = number(size, n, 1, kMany);
    place.process = number(rank, r, 0, place.processes - 1);
    place.from = launcher;
    if (const char* j = environment(job)) place.job = j;
    return true;
  };
  const auto node = [&](const char* name) {
    if (const char* text = environment(name)) place.node = number(name, text, 0, kMany);
  };
  if (take("torchrun", "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID")) {
    node("GROUP_RANK");
  } else if (take("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                  "OMPI_MCA_ess_base_jobid")) {
    const char* local = environment("OMPI_COMM_WORLD_LOCAL_SIZE");
    if (!environment("MASTER_ADDR") &&
        (!local || number("OMPI_COMM_WORLD_LOCAL_SIZE", local, 1, kMany) != place.processes))
      throw std::invalid_argument(
          "MASTER_ADDR is not set, and Open MPI's ranks are on several hosts: say mpirun -x "
          "MASTER_ADDR=<host of rank 0>");
  } else if (environment("SLURM_STEP_ID") &&
             take("Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID")) {
    node("SLURM_NODEID");
    if (const char* list = environment("SLURM_STEP_NODELIST")) place.address = first_host(list);
  } else {
    return std::nullopt;
  }
  if (const char* address = environment("MASTER_ADDR")) place.address = address;
  if (const char* port = environment("MASTER_PORT")) {
    place.port = number("MASTER_PORT", port, 1, 65535);
    // torchrun's own store may listen on that port.
    const char* store = environment("TORCHELASTIC_USE_AGENT_STORE");
    if (store && std::string_view(store) == "True") place.port += place.port < 65535 ? 1 : -1;
  }
  if (const char* token = environment("FOREDUCE_TOKEN")) {
    place.token = RunToken::from_hex(token);
    if (!place.token)  // a secret, so the message must not repeat it
      throw std::invalid_argument(
          "FOREDUCE_TOKEN has not 32 hexadecimal digits: openssl rand -hex 16 makes them");
  }
  return place;
}

namespace {

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
  int wait() const { return ::sigwaitinfo(&watched_, nullptr); }

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

/// Waits until all children have ended. Passes SIGINT and SIGTERM on to them, and kills them if one
/// of these comes again.
int wait_for(Children children, const BlockedSignals& signals) {
  int worst = 0, stopped_by = 0;
  while (!children.empty()) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    if (ended < 0) {  // somebody else has waited for them
      worst = std::max(worst, 1);
      break;
    }
    if (ended == 0) {
      const int signal = signals.wait();
      if (signal != SIGINT && signal != SIGTERM) continue;
      for (const auto& [pid, process] : children) ::kill(pid, stopped_by == 0 ? signal : SIGKILL);
      stopped_by = signal;
      continue;
    }
    const auto found = children.find(ended);
    if (found == children.end()) continue;
    if (WIFSIGNALED(status) && stopped_by == 0)
      fmt::print(stderr, "process {} was killed by signal {} ({})\n", found->second,
                 WTERMSIG(status), ::strsignal(WTERMSIG(status)));
    worst = std::max(worst, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    children.erase(found);
  }
  return stopped_by != 0 ? 128 + stopped_by : worst;
}

}  // namespace

int spawn(int processes, const std::function<int(const ProcessPlace&)>& work) {
  // The socket listens before any child runs, so nobody else takes the port and no child connects
  // too early.
  Listener listener(processes);
  ProcessPlace place;
  place.processes = processes;
  place.port = listener.port;
  place.job = fmt::format("local {}", ::getpid());
  place.token = RunToken::random();
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
      place.listening = p == 0 ? listener.socket.number : -1;
      if (p != 0) listener.socket.close();
      run_child(place, parent, signals, work);
    }
    children[child] = p;
  }
  listener.socket.close();
  return wait_for(std::move(children), signals);
}

}  // namespace foreduce
