#include "scenarios/cli/mpi_run.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

namespace foreduce {
namespace {

/// A file without a name, which ends with this process. Others of the same user reach it by path().
class NamelessFile {
 public:
  NamelessFile() : descriptor_(::memfd_create("foreduce-mpi", MFD_CLOEXEC)) {
    if (descriptor_ < 0)
      throw TransportError(fmt::format("no memory for mpirun's answer: {}", std::strerror(errno)));
  }
  NamelessFile(const NamelessFile&) = delete;
  ~NamelessFile() { ::close(descriptor_); }
  std::string path() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), descriptor_); }

 private:
  int descriptor_;
};

/// Becomes mpirun; does not return.
[[noreturn]] void become_mpirun(std::vector<std::string> words, const LaunchOptions& launch,
                                pid_t parent) {
  // If the program is killed, mpirun ends its processes. SIGKILL would leave them.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(137);
  if (!launch.threads() && launch.provider == "tcp") ::setenv("OMPI_MCA_btl", "self,tcp", 0);
  if (::getuid() == 0) {  // the user who runs foreduce as root has decided that already
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  }
  // The new processes are of this run alone, whatever launched this program.
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
                           "MASTER_ADDR", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE"})
    ::unsetenv(name);
  // Runs side by side on one machine must not meet each other.
  ::setenv("MASTER_PORT", std::to_string(free_local_port()).c_str(), 1);
  if (static_cast<unsigned>(launch.ranks) > std::thread::hardware_concurrency())
    ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp("mpirun", arguments.data());
  fmt::print(stderr, "mpirun does not start: {}\n", std::strerror(errno));
  ::_exit(127);
}

}  // namespace

Json run_under_mpirun(const MpiRun& run) {
  const NamelessFile output;
  std::vector<std::string> words = {"mpirun", "-n", std::to_string(run.launch.ranks),
                                    "--oversubscribe",
                                    std::filesystem::read_symlink("/proc/self/exe").string()};
  for (const std::string& word : {std::string("run"),
                                  std::string("--algorithm"),
                                  std::string("mpi"),
                                  std::string("--collective"),
                                  run.collective,
                                  std::string("--transport"),
                                  std::string("ofi"),
                                  std::string("--sizes"),
                                  run.sizes,
                                  std::string("--dtype"),
                                  run.dtype,
                                  std::string("--warmup"),
                                  std::to_string(run.warmup),
                                  std::string("--iterations"),
                                  std::to_string(run.iterations),
                                  std::string("--timeout"),
                                  fmt::format("{}", run.launch.timeout),
                                  std::string("--format"),
                                  std::string("json"),
                                  std::string("-o"),
                                  output.path()})
    words.push_back(word);
  if (run.check) words.emplace_back("--check");
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) throw TransportError("cannot start mpirun");
  if (child == 0) become_mpirun(std::move(words), run.launch, parent);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::ifstream file(output.path());
  const Json report = Json::parse(file, nullptr, false);
  if (status != 0 || report.is_discarded()) throw TransportError("the baseline mpi gave no answer");
  return report;
}

}  // namespace foreduce
