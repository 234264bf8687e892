#include "real/launch.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>

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

/// "gpu[03-08]-ib,gpu12" → "gpu03-ib".
std::string first_host(const std::string& list) {
  const auto bracket = list.find('[');
  if (bracket == std::string::npos || list.find(',') < bracket)
    return list.substr(0, list.find(','));
  const auto end = list.find(']', bracket);
  const std::string after = end == std::string::npos ? "" : list.substr(end + 1);
  return list.substr(0, bracket) +
         list.substr(bracket + 1, list.find_first_of(",-]", bracket) - bracket - 1) +
         after.substr(0, after.find(','));
}

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

}  // namespace foreduce
