// Reads the table of `nvidia-smi topo -m`: how any two GPUs and NICs are connected.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "input/problem.hpp"
#include "input/text_stream.hpp"
#include "topologies/topology_dump.hpp"

namespace foreduce {
namespace {

/// Sets of devices that grow together.
class Sets {
 public:
  explicit Sets(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  std::size_t of(std::size_t i) const { return parent_[i] == i ? i : of(parent_[i]); }
  void join(std::size_t a, std::size_t b) {
    parent_[std::max(of(a), of(b))] = std::min(of(a), of(b));
  }

 private:
  std::vector<std::size_t> parent_;
};

bool is_gpu(const std::string& name) { return name.starts_with("GPU"); }
bool is_link(const std::string& word) {
  static const std::set<std::string> known = {"X", "SYS", "NODE", "PHB", "PXB", "PIX"};
  return known.contains(word) || (word.starts_with("NV") && word.size() > 2 &&
                                  word.find_first_not_of("0123456789", 2) == std::string::npos);
}

/// A line's words, without the escape sequences that underline the heading.
std::vector<std::string> columns_of(const std::string& line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') i = std::min(line.find('m', i), line.size());
    else plain += line[i];
  }
  TextStream in(plain);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

class SmiTopology {
 public:
  SmiTopology(const std::string& name, const std::string& text) : text_(text) {
    dump_.file = name;
    dump_.kind = "nvidia-smi topo -m";
    dump_.complete = true;
  }

  TopologyDump read() {
    read_table();
    const std::size_t count = names_.size();
    Sets together(count), near(count);
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b < count; ++b) {
        // NVLink hides where two GPUs are; the cores near them tell.
        if (!cores_[a].empty() && cores_[a] == cores_[b]) near.join(a, b);
        const std::string& link = links_[a][b];
        if (link == "PIX" || link == "PXB") together.join(a, b);
        if (link != "SYS" && !link.starts_with("NV")) near.join(a, b);
      }
    std::map<std::size_t, int> sockets;
    std::map<std::size_t, std::size_t> groups;
    for (std::size_t i = 0; i < count; ++i) {
      const auto socket = sockets.emplace(near.of(i), static_cast<int>(sockets.size())).first;
      const auto group = groups.emplace(together.of(i), groups.size());
      if (group.second) dump_.groups.push_back({socket->second, std::nullopt});
      add(i, group.first->second);
    }
    dump_.sockets = static_cast<int>(sockets.size());
    read_nvlinks();
    return std::move(dump_);
  }

 private:
  [[noreturn]] void fail(int line, std::string message) const {
    throw InputError(Problem{dump_.file, line, line > 0 ? 1 : 0, "", std::move(message),
                             "a file of NCCL_TOPO_DUMP_FILE, or the text of nvidia-smi topo -m or "
                             "of lspci -vv",
                             ""});
  }

  void read_table() {
    TextStream in(text_);
    std::string line;
    int number = 0;
    for (; std::getline(in, line); ++number) {
      const auto words = columns_of(line);
      if (words.empty() || !is_gpu(words[0]) || (words.size() > 1 && is_link(words[1]))) continue;
      names_ = words;
      break;
    }
    if (names_.empty()) fail(0, "there is no heading GPU0 GPU1 …, as nvidia-smi topo -m has it");
    const auto end = std::find(names_.begin(), names_.end(), "CPU");  // "CPU Affinity"
    names_.erase(end, names_.end());
    constexpr std::size_t kMostHeadings = 1024;
    if (names_.size() > kMostHeadings)
      fail(number + 1, fmt::format("more than {} devices", kMostHeadings));
    if (std::set<std::string>(names_.begin(), names_.end()).size() != names_.size())
      fail(number + 1, "a device stands twice in the heading");
    while (links_.size() < names_.size()) {
      ++number;
      if (!std::getline(in, line)) fail(number, "the table ends before its last row");
      auto words = columns_of(line);
      if (words.empty()) continue;
      if (words[0] != names_[links_.size()])
        fail(number + 1, fmt::format("a row of {} is expected", names_[links_.size()]));
      words.erase(words.begin());
      if (words.size() < names_.size())
        fail(number + 1, fmt::format("{} columns are expected", names_.size()));
      cores_.push_back(words.size() > names_.size() && is_gpu(names_[links_.size()])
                           ? words[names_.size()]
                           : "");
      words.resize(names_.size());
      if (const auto odd = std::find_if_not(words.begin(), words.end(), is_link);
          odd != words.end())
        fail(number + 1, fmt::format("'{}' is no connection of nvidia-smi's", odd->substr(0, 40)));
      links_.push_back(std::move(words));
    }
    while (std::getline(in, line))  // "NIC0: mlx5_0", of the legend
      if (const auto words = columns_of(line); words.size() == 2 && words[0].ends_with(':'))
        drivers_[words[0].substr(0, words[0].size() - 1)] = words[1];
  }

  void add(std::size_t device, std::size_t group) {
    if (is_gpu(names_[device])) {
      gpu_places_.push_back(device);
      dump_.gpus.push_back({names_[device], "", group, std::nullopt, {}, 0});
    } else {
      const auto known = drivers_.find(names_[device]);
      dump_.nics.push_back({names_[device], "", group, std::nullopt, std::nullopt, std::nullopt,
                            known == drivers_.end() ? names_[device] : known->second});
    }
  }

  /// NV4 between all pairs of four GPUs is a mesh, NV12 between all of eight is a switch: a GPU
  /// has at most 18 links.
  void read_nvlinks() {
    constexpr int kMostLinks = 18;
    const auto links_between = [&](std::size_t a, std::size_t b) {
      const std::string& link = links_[gpu_places_[a]][gpu_places_[b]];
      return link.starts_with("NV") ? std::min(64, std::atoi(link.c_str() + 2)) : 0;
    };
    for (std::size_t a = 0; a < dump_.gpus.size(); ++a) {
      int all = 0, most = 0;
      for (std::size_t b = 0; b < dump_.gpus.size(); ++b) {
        if (a == b) continue;
        all += links_between(a, b);
        most = std::max(most, links_between(a, b));
      }
      if (all > kMostLinks) dump_.gpus[a].switch_links = most;
      for (std::size_t b = 0; b < dump_.gpus.size() && all <= kMostLinks; ++b)
        if (a != b && links_between(a, b) > 0)
          dump_.gpus[a].peers[dump_.gpus[b].id] = links_between(a, b);
    }
  }

  const std::string& text_;
  TopologyDump dump_;
  std::vector<std::string> names_, cores_;
  std::map<std::string, std::string> drivers_;  // of NICs, where the legend names them
  std::vector<std::vector<std::string>> links_;
  std::vector<std::size_t> gpu_places_;
};

}  // namespace

TopologyDump parse_smi_topology(const std::string& name, const std::string& text) {
  return SmiTopology(name, text).read();
}

}  // namespace foreduce
