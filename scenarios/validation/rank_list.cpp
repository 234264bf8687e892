#include "scenarios/validation/rank_list.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string_view>
#include <utility>

namespace foreduce {

/// What a driver calls a GPU that is newer than itself.
static constexpr std::string_view kUnnamed = "NVIDIA Graphics Device";

bool RankList::take(const nccl_words::Words& words) {
  const auto rank = words.size() > 1 ? nccl_words::small(words[1]) : std::nullopt;
  const auto on = std::find(words.begin(), words.end(), "on"),
             device = std::find(words.begin(), words.end(), "device");
  // 1: the host's name was taken out; 0: "on" as well; more: who posted it gave a name of several
  // words.
  const auto between = on == words.end() ? 0 : device - on;
  constexpr std::ptrdiff_t kMostWords = 4;
  if (!rank || device == words.end() || between < 0 || between > 1 + kMostWords ||
      words.end() - device < 3)
    return false;
  Rank r;
  for (std::ptrdiff_t i = 1; i < between; ++i) r.host += (i > 1 ? " " : "") + std::string(on[i]);
  r.device = device[1];
  if (words.size() > 3 && words[2] == "Group") r.group = nccl_words::small(words[3]).value_or(0);
  for (auto word = device + 2; word != words.end(); ++word)
    if (word == device + 2 && word->starts_with('[')) r.device += *word;  // the bus address
    else r.gpu += (r.gpu.empty() ? "" : " ") + std::string(*word);
  add(*rank, std::move(r));
  return true;
}

void RankList::take(int rank, std::string host, std::string gpu) {
  add(rank, {std::move(host), "", std::move(gpu)});
}

void RankList::add(int rank, Rank r) {
  if (rows_printed_ && ranks_.count(rank) > 0) ranks_.clear();  // the list of the next run
  if (ranks_.empty()) {
    rows_printed_ = false;
    times_listed_.clear();
    conflicting_hosts_.clear();
  }
  ++times_listed_[rank];
  const auto [at, is_new] = ranks_.try_emplace(rank, r);
  if (!is_new && at->second.host != r.host && conflicting_hosts_.empty())
    conflicting_hosts_ = fmt::format("rank {} is on {} and on {}", rank, at->second.host, r.host);
}

namespace {
/// Whether the device's name tells GPUs apart. Old versions print the bus alone, which is the same
/// for all where each GPU has a PCI domain of its own: 0 at Azure, and beside a Grace (GH200,
/// GB200) any.
bool names_one_gpu(const std::string& device, const std::string& gpu) {
  const bool bus_alone = device.find("[0x") != std::string::npos,
             beside_grace = gpu.find("GH200") != std::string::npos ||
                            gpu.find("GB200") != std::string::npos ||
                            gpu.find("GB300") != std::string::npos;
  return !device.empty() && !device.ends_with("[0x00]") && !(bus_alone && beside_grace);
}
}  // namespace

namespace {
/// "53" of "0[0x53]" and of "0[0000:53:00]"; "" where there is no address.
std::string bus_of(const std::string& device) {
  static const std::regex address(R"(\[(?:0x|[0-9a-fA-F]{4,8}:)([0-9a-fA-F]{2})(?:[:\]].*)?)");
  std::smatch found;
  return std::regex_search(device, found, address) ? found[1].str() : "";
}
}  // namespace

int RankList::hosts() const {
  std::set<std::string> names;
  std::map<std::pair<std::string, std::string>, int> on_device;
  int most = 0;
  for (const auto& [rank, r] : ranks_) {
    names.insert(r.host);
    if (names_one_gpu(r.device, r.gpu)) most = std::max(most, ++on_device[{r.host, r.device}]);
  }
  // A GPU that is there twice is on two hosts whose names were made the same.
  if (names.size() == 1 && most > 1) return most;
  return most > 1 || names.contains("") ? 0 : static_cast<int>(names.size());
}

std::string RankList::same_gpu() const {
  std::map<std::pair<std::string, std::string>, int> on_device;
  for (const auto& [rank, r] : ranks_) {
    if (!names_one_gpu(r.device, r.gpu)) continue;
    const auto [at, is_new] = on_device.try_emplace({r.host, r.device}, rank);
    if (!is_new)
      return fmt::format("ranks {} and {} are both on device {}{}", at->second, rank, r.device,
                         r.host.empty() ? "" : " of " + r.host);
  }
  return "";
}

std::string RankList::mixed_words() const {
  std::map<std::string, std::set<std::string>> hosts;
  for (const auto& [rank, r] : ranks_)
    if (r.gpu != kUnnamed) hosts[r.gpu].insert(r.host);
  std::string words;
  for (const auto& [gpu, on] : hosts) {
    if (!words.empty()) words += " and ";
    words += gpu;
    if (on.contains("")) continue;
    words += " on " + *on.begin();
    if (on.size() > 1) words += fmt::format(" and {} more", on.size() - 1);
  }
  return words;
}

void RankList::tell(NcclTable& t) const {
  std::map<std::string, int> on_host;
  std::set<std::string> gpus;
  std::set<int> groups;
  for (const auto& [rank, r] : ranks_) {
    groups.insert(r.group);
    if (const std::string bus = bus_of(r.device);
        !bus.empty() && r.host == ranks_.begin()->second.host)
      t.gpu_buses.push_back(bus);
    ++on_host[r.host];
    if (r.gpu != kUnnamed) gpus.insert(r.gpu);
    if (const auto device = nccl_words::small(r.device.substr(0, r.device.find('['))))
      t.least_on_host = std::max(t.least_on_host, *device + 1);
  }
  t.groups = std::max(1, static_cast<int>(groups.size()));
  if (gpus.size() == 1) t.gpu = *gpus.begin();
  else if (gpus.size() > 1) t.mixed = mixed_words();
  if (!ranks_.empty()) t.least_listed = ranks_.rbegin()->first + 1;
  // A list with holes (lines lost) says nothing about how many there are.
  if (ranks_.empty() || ranks_.begin()->first != 0 ||
      ranks_.rbegin()->first + 1 != static_cast<int>(ranks_.size()))
    return;
  t.ranks = static_cast<int>(ranks_.size());
  t.hosts = hosts();
  t.same_gpu = same_gpu();
  if (t.hosts > 1 || on_host.size() > 1) t.uneven = nccl_words::uneven_words(on_host);
  for (const auto& [rank, times] : times_listed_)
    t.independent_runs = std::max(t.independent_runs, times);
  t.conflicting_hosts = conflicting_hosts_;
}

}  // namespace foreduce
