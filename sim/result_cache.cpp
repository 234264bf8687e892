#include "sim/result_cache.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "input/build_id.hpp"
#include "input/files.hpp"
#include "sim/collective_json.hpp"
#include "sim/simulator.hpp"

namespace foreduce {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kEnding = ".answer";

/// Of all code and data that an answer depends on; "" if the linker gave none.
const std::string& build_id() {
  static const std::string id = [] {
    const std::string program = build_id_of_program(), &simulator = simulator_build_id();
    return program.empty() || simulator.empty() ? program : sha1(program + simulator);
  }();
  return id;
}

bool is_answer(const fs::directory_entry& entry) {
  std::error_code none;
  return entry.path().extension() == kEnding && entry.is_regular_file(none);
}

template <class Visit>
void for_each_answer(const fs::path& folder, Visit visit) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (is_answer(*at)) visit(*at);
}

/// When a build last kept an answer.
fs::file_time_type last_kept(const fs::path& build) {
  std::error_code error;
  fs::file_time_type last = fs::last_write_time(build, error);
  for (fs::directory_iterator at(build, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    if (const auto kept = at->last_write_time(gone); !gone) last = std::max(last, kept);
  }
  return last;
}

void remove_other_builds(const fs::path& mine) {
  constexpr std::size_t kShortestId = 16;  // lld's; GNU ld's has 40 digits
  const auto of_a_build = [](const fs::path& path) {
    const std::string name = path.filename().string();
    return name.size() >= kShortestId &&
           name.find_first_not_of("0123456789abcdef") == std::string::npos;
  };
  const auto oldest =
      fs::file_time_type::clock::now() - std::chrono::hours(24) * kDaysOfOtherBuilds;
  std::vector<fs::path> old;
  std::error_code error;
  for (fs::directory_iterator at(mine.parent_path(), error), end; !error && at != end;
       at.increment(error))
    if (std::error_code none;
        at->is_directory(none) && of_a_build(at->path()) && last_kept(at->path()) < oldest)
      old.push_back(at->path());
  for (const fs::path& build : old) {
    clear_cache(build);
    fs::remove(build, error);  // only when it is empty
  }
}

}  // namespace

ResultCache::ResultCache(fs::path folder) {
  if (!folder.empty() && !build_id().empty()) folder_ = folder / build_id();
}

fs::path ResultCache::file_of(const std::string& question) const {
  const std::string hash = sha1(std::string(simulator_name()) + "|" + question);
  return folder_ / hash.substr(0, 2) / (hash.substr(2) + kEnding);
}

std::optional<CachedAnswer> ResultCache::find(const std::string& question) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream in(file_of(question), std::ios::binary);
  if (!in) return std::nullopt;
  try {
    const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const json j = json::from_cbor(bytes);
    if (j.at("question") != sha1(question + "|whole")) return std::nullopt;
    return CachedAnswer{collective_from_json(j.at("result")), j.at("extrapolated").get<bool>(),
                        j.at("error").get<double>()};
  } catch (const std::exception&) {  // damaged: as if it were not there
    return std::nullopt;
  }
}

void ResultCache::keep(const std::string& question, const CachedAnswer& answer) const {
  if (folder_.empty()) return;
  const fs::path file = file_of(question);
  std::error_code error;
  if (!fs::exists(folder_, error)) remove_other_builds(folder_);
  fs::create_directories(file.parent_path(), error);
  CachedAnswer kept = answer;
  kept.result.traffic.clear();
  kept.result.timeline.clear();
  const auto bytes = json::to_cbor({{"question", sha1(question + "|whole")},
                                    {"result", to_json(kept.result)},
                                    {"extrapolated", kept.extrapolated},
                                    {"error", kept.extrapolation_error}});
  const fs::path beside = file.string() + fmt::format(".{}", ::getpid());
  {
    std::ofstream out(beside, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) fs::rename(beside, file, error);
  if (error) fs::remove(beside, error);
}

CacheContents cache_contents(const fs::path& folder) {
  CacheContents c;
  const std::string mine = (folder / build_id()).string();
  for_each_answer(folder, [&](const fs::directory_entry& entry) {
    std::error_code gone;
    const std::uintmax_t size = entry.file_size(gone);
    if (gone) return;  // by another process meanwhile
    ++c.answers;
    c.bytes += Bytes{static_cast<double>(size)};
    c.answers_of_this_build += entry.path().string().starts_with(mine);
  });
  return c;
}

std::string why_nothing_is_kept(const fs::path& folder) {
  std::error_code error;
  fs::path there = fs::absolute(folder, error);
  while (there.has_relative_path() && !fs::exists(there, error)) there = there.parent_path();
  if (!fs::is_directory(there, error)) return there.string() + " is not a folder";
  if (::access(there.c_str(), W_OK | X_OK) == 0) return "";
  return there.string() + ": " + std::generic_category().message(errno);
}

RemovedAnswers clear_cache(const fs::path& folder) {
  std::vector<fs::path> files;
  for_each_answer(folder, [&](const fs::directory_entry& entry) { files.push_back(entry.path()); });
  RemovedAnswers all;
  for (const fs::path& file : files) {
    std::error_code error, none;
    fs::remove(file, error);
    if (error && all.left++ == 0) all.why_left = file.string() + ": " + error.message();
    all.removed += !error;
    fs::remove(file.parent_path(), none);                // only when it is empty
    fs::remove(file.parent_path().parent_path(), none);  // likewise
  }
  return all;
}

fs::path cache_folder() {
  const auto given = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  if (const std::string folder = given("FOREDUCE_CACHE"); !folder.empty())
    return folder == "off" ? fs::path() : fs::path(folder);
  if (const std::string cache = given("XDG_CACHE_HOME"); cache.starts_with("/"))
    return fs::path(cache) / "foreduce";
  const std::string home = given("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".cache" / "foreduce";
}

}  // namespace foreduce
