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
#include <system_error>
#include <vector>

namespace foreduce {
namespace {

int number(const char* name, const char* text, int at_least, int at_most) {
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stopped, failed] = std::from_chars(text, end, value);
  if (failed != std::errc{} || stopped != end || value < at_least || value > at_most)
    throw std::invalid_argument(fmt::format("{}: '{}' is not a number from {} to {}", name, text, at_least, at_most));
  return value;
}

/// "gpu[03-08],gpu12" → "gpu03".
std::string first_host(const std::string& list) {
  const auto bracket = list.find('[');
  if (bracket == std::string::npos || list.find(',') < bracket) return list.substr(0, list.find(','));
  return list.substr(0, bracket) + list.substr(bracket + 1, list.find_first_of(",-]", bracket) - bracket - 1);
}

volatile std::sig_atomic_t stop_signal = 0;

}  // namespace

std::optional<ProcessPlace> place_from_environment(const std::function<const char*(const char*)>& environment) {
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
  } else if (take("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_MCA_ess_base_jobid")) {
    const char* local = environment("OMPI_COMM_WORLD_LOCAL_SIZE");
    if (!environment("MASTER_ADDR") && (!local || number("OMPI_COMM_WORLD_LOCAL_SIZE", local, 1, kMany) != place.processes))
      throw std::invalid_argument("MASTER_ADDR is not set, and Open MPI's ranks are on several hosts: say mpirun -x MASTER_ADDR=<host of rank 0>");
  } else if (environment("SLURM_STEP_ID") && take("Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID")) {
    node("SLURM_NODEID");
    if (const char* list = environment("SLURM_STEP_NODELIST")) place.address = first_host(list);
  } else {
    return std::nullopt;
  }
  if (const char* address = environment("MASTER_ADDR")) place.address = address;
  if (const char* port = environment("MASTER_PORT")) place.port = number("MASTER_PORT", port, 1, 65535);
  return place;
}

int spawn(int processes, const std::function<int(const ProcessPlace&)>& work) {
  // The socket is open before any child runs: no port can be taken in between, and nobody connects too early.
  const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (listening < 0 || ::bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || ::listen(listening, processes) != 0 ||
      ::getsockname(listening, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot listen on 127.0.0.1");
  ProcessPlace place;
  place.processes = processes;
  place.port = ::ntohs(address.sin_port);
  place.job = fmt::format("local {}", ::getpid());
  std::map<pid_t, int> children;
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  for (int p = 0; p < processes; ++p) {
    const pid_t child = ::fork();
    if (child < 0) {
      const int why = errno;
      for (const auto& [pid, process] : children) ::kill(pid, SIGKILL);
      for (const auto& [pid, process] : children) ::waitpid(pid, nullptr, 0);
      throw std::system_error(why, std::generic_category(), "cannot start another process");
    }
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(137);
      place.process = p;
      place.node = p;
      place.listening = p == 0 ? listening : -1;
      if (p != 0) ::close(listening);
      const int status = work(place);
      std::fflush(nullptr);
      ::_exit(status);
    }
    children[child] = p;
  }
  ::close(listening);
  stop_signal = 0;
  struct sigaction pass{}, old_interrupt{}, old_terminate{};
  pass.sa_handler = [](int signal) { stop_signal = signal; };
  ::sigaction(SIGINT, &pass, &old_interrupt);
  ::sigaction(SIGTERM, &pass, &old_terminate);
  int worst = 0;
  while (!children.empty()) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, 0);
    if (ended < 0) {
      if (errno != EINTR) break;
      if (stop_signal != 0)
        for (const auto& [pid, process] : children) ::kill(pid, stop_signal);
      continue;
    }
    const auto found = children.find(ended);
    if (found == children.end()) continue;
    if (WIFSIGNALED(status)) fmt::print(stderr, "process {} was killed by signal {} ({})\n", found->second, WTERMSIG(status), ::strsignal(WTERMSIG(status)));
    worst = std::max(worst, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    children.erase(found);
  }
  ::sigaction(SIGINT, &old_interrupt, nullptr);
  ::sigaction(SIGTERM, &old_terminate, nullptr);
  return worst;
}

}  // namespace foreduce
