#include "input/machine_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace foreduce {

Bytes memory_limit_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  double bytes = 0;
  return in >> bytes && bytes > 0 ? Bytes{bytes} : Bytes{std::numeric_limits<double>::infinity()};
}

Bytes machine_memory() {
  Bytes least{static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
              static_cast<double>(::sysconf(_SC_PAGESIZE))};
  // Inside a container its own group is mounted at the root; outside of one its path says which.
  const std::filesystem::path root = "/sys/fs/cgroup";
  least = std::min({least, memory_limit_in(root / "memory.max"),
                    memory_limit_in(root / "memory" / "memory.limit_in_bytes")});
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto path = line.rfind(':') + 1;
    const std::string own = line.substr(std::min(path + 1, line.size()));
    if (line.starts_with("0::"))
      least = std::min(least, memory_limit_in(root / own / "memory.max"));
    else if (line.find(":memory:") != std::string::npos)
      least = std::min(least, memory_limit_in(root / "memory" / own / "memory.limit_in_bytes"));
  }
  return least;
}

}  // namespace foreduce
