#include "scenarios/cli/mpi_run.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

namespace foreduce {
namespace {

/// Becomes mpirun; does not return.
[[noreturn]] void become_mpirun(std::vector<std::string> words, const LaunchOptions& launch) {
  if (!launch.threads() && launch.provider == "tcp") ::setenv("OMPI_MCA_btl", "self,tcp", 0);
  if (::getuid() == 0) {  // the user who runs foreduce as root has decided that already
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  }
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
  const auto output =
      std::filesystem::temp_directory_path() / fmt::format("foreduce-mpi-{}.json", ::getpid());
  std::vector<std::string> words = {"mpirun", "-n", std::to_string(run.launch.ranks),
                                    "--oversubscribe",
                                    std::filesystem::read_symlink("/proc/self/exe").string()};
  for (const std::string& word :
       {std::string("run"), std::string("--algorithm"), std::string("mpi"),
        std::string("--transport"), std::string("ofi"), std::string("--sizes"), run.sizes,
        std::string("--dtype"), run.dtype, std::string("--warmup"), std::to_string(run.warmup),
        std::string("--iterations"), std::to_string(run.iterations), std::string("--timeout"),
        fmt::format("{}", run.launch.timeout), std::string("--format"), std::string("json"),
        std::string("-o"), output.string()})
    words.push_back(word);
  if (run.check) words.emplace_back("--check");
  const pid_t child = ::fork();
  if (child < 0) throw TransportError("cannot start mpirun");
  if (child == 0) become_mpirun(std::move(words), run.launch);
  int status = 0;
  ::waitpid(child, &status, 0);
  std::ifstream file(output);
  const Json report = Json::parse(file, nullptr, false);
  std::error_code ignored;
  std::filesystem::remove(output, ignored);
  if (status != 0 || report.is_discarded()) throw TransportError("the baseline mpi gave no answer");
  return report;
}

}  // namespace foreduce
