#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "input/json.hpp"
#include "scenarios/validation/log_reader.hpp"
#include "scenarios/validation/nccl_json.hpp"

namespace foreduce {

using nccl_words::bytes_of;
using nccl_words::collective_of;
using std::string_view;

nlohmann::json LogReader::parse(string_view text) const {
  using nlohmann::json;
  check_json_depth(log_.file, text);
  try {
    // The block of environment variables holds secrets: it is dropped while it is read.
    return json::parse(text, [](int depth, json::parse_event_t event, json& value) {
      return !(depth == 1 && event == json::parse_event_t::key && value == "env");
    });
  } catch (const json::parse_error& e) {  // what() quotes the file: not passed on
    const auto byte = static_cast<std::ptrdiff_t>(std::min(e.byte, text.size()));
    const auto lines = std::count(text.begin(), text.begin() + byte, '\n');
    throw fail(static_cast<int>(lines) + 1, fmt::format("no JSON from byte {} on", byte));
  } catch (const json::out_of_range&) {
    throw fail(0, "a number is out of range");
  }
}

NcclLog LogReader::json(string_view text) {
  using nccl_json::number_of;
  using nccl_json::text_of;
  using nlohmann::json;
  const json all = parse(text);
  const auto wrong = [&](const std::string& what) {
    return fail(0, what, "accepted: what nccl-tests -J writes, versions 1 to 3");
  };
  if (!all.is_object() || !all.contains("results"))
    throw wrong("JSON without results: not nccl-tests'");
  if (const auto version = number_of(all, "version"); !version || *version < 1 || *version > 3)
    throw wrong(version ? fmt::format("version {} of nccl-tests' JSON is not known", *version)
                        : "JSON without nccl-tests' version");
  if (const auto version = number_of(all, "nccl_version");
      version && *version > 1000 && *version < 1e7) {
    const int v = static_cast<int>(*version), major = v >= 10000 ? v / 10000 : v / 1000,
              minor = v >= 10000 ? v / 100 % 100 : v / 100 % 10;
    facts_.nccl_version = fmt::format("{}.{}.{}", major, minor, v % 100);
  }
  const json& config =
      all.contains("config") && all["config"].is_object() ? all["config"] : json::object();
  asked_.bytes = number_of(config, "maximum_bytes").value_or(0);
  for (nccl_json::Device& d : nccl_json::devices_of(config))
    ranks_.take(d.rank, std::move(d.host), std::move(d.gpu));
  if (!all["results"].is_array()) throw wrong("results are no list");
  if (all.contains("args") && all["args"].is_array() && !all["args"].empty() &&
      all["args"][0].is_string())
    collective_ = collective_of(all["args"][0].get<std::string>());
  std::size_t place = 0;
  for (const json& r : all["results"]) {
    const auto at = place++;
    if (!r.is_object()) throw wrong(fmt::format("results[{}] is no object", at));
    NcclRow row;
    const auto bytes = number_of(r, "size"), count = number_of(r, "count");
    row.type = text_of(r, "type");
    row.redop = text_of(r, "redop");
    if (!bytes || !count || bytes_of(row.type) == 0)
      throw wrong(fmt::format("results[{}] lacks size, count or a known type", at));
    row.bytes = *bytes;
    row.count = *count;
    bool untold = false;
    for (const char* half : {"out_of_place", "in_place"}) {
      const auto found = r.find(half);
      if (found == r.end() || found->is_null()) continue;
      const bool of_cpu = found->is_object() && found->contains("cpu_time");
      const auto time =
          found->is_object() ? number_of(*found, of_cpu ? "cpu_time" : "time") : std::nullopt;
      const auto algbw = found->is_object() ? number_of(*found, "alg_bw") : std::nullopt,
                 busbw = found->is_object() ? number_of(*found, "bus_bw") : std::nullopt;
      if (!time || !algbw || !busbw || !(*time > 0))
        throw wrong(fmt::format("results[{}].{} lacks time, alg_bw or bus_bw", at, half));
      std::optional<NcclTiming> timing = NcclTiming{Seconds{*time * 1e-6}, *algbw, *busbw};
      if (of_cpu) timing = timing_by_bandwidth(*bytes, *algbw, *busbw);
      untold = untold || !timing;
      if (!timing) continue;
      timing->wrong = number_of(*found, "nwrong");
      timing->unchecked = !timing->wrong;
      (half[0] == 'o' ? row.out_of_place : row.in_place) = timing;
    }
    if (row.out_of_place || row.in_place) add(std::move(row));
    else if (untold) note(fmt::format("results[{}] is {}", at, kUntoldTime));
    else note(fmt::format("results[{}] has no time; left out", at));
  }
  NcclLog log = finish();
  if (!log.tables.empty()) nccl_json::take_end(all, log.tables.back());
  return log;
}

}  // namespace foreduce
