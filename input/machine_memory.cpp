#include "input/machine_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>

#include "input/text_stream.hpp"

namespace foreduce {
namespace {

/// Of a file that holds a number of bytes, or "max".
Bytes limit_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  double bytes = 0;
  return in >> bytes && bytes > 0 ? Bytes{bytes} : Bytes{std::numeric_limits<double>::infinity()};
}

}  // namespace

Bytes memory_of_groups(const std::filesystem::path& root, const std::string& groups) {
  Bytes least{std::numeric_limits<double>::infinity()};
  TextStream in(groups);
  for (std::string line; std::getline(in, line);) {  // 4:memory:/job/step, or 0::/job/step
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "memory") continue;
    const std::filesystem::path top = controllers.empty() ? root : root / "memory";
    const char* const file = controllers.empty() ? "memory.max" : "memory.limit_in_bytes";
    std::filesystem::path at = top;
    least = std::min(least, limit_in(at / file));  // a container's own group is at the root
    for (const auto& name : std::filesystem::path(line.substr(second + 1)).relative_path())
      least = std::min(least, limit_in((at /= name) / file));
  }
  return least;
}

Bytes machine_memory() {
  std::ifstream file("/proc/self/cgroup");
  const std::string groups{std::istreambuf_iterator<char>(file), {}};
  return std::min(Bytes{static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<double>(::sysconf(_SC_PAGESIZE))},
                  memory_of_groups("/sys/fs/cgroup", groups));
}

}  // namespace foreduce
