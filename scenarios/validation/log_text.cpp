#include "scenarios/validation/log_text.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "input/problem.hpp"

namespace foreduce {
namespace {

using std::string_view;

std::string unpacked(const std::string& file, const std::string& bytes, std::size_t most) {
  constexpr int kGzip = 16;  // added to the window's bits: zlib.h, inflateInit2
  z_stream stream{};
  if (inflateInit2(&stream, MAX_WBITS + kGzip) != Z_OK) throw std::bad_alloc();
  struct End {
    z_stream& stream;
    ~End() { inflateEnd(&stream); }
  } const end{stream};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string text;
  std::array<char, 65536> some{};
  for (int state = Z_OK; state != Z_STREAM_END;) {
    stream.next_out = reinterpret_cast<Bytef*>(some.data());
    stream.avail_out = static_cast<uInt>(some.size());
    state = inflate(&stream, Z_NO_FLUSH);
    if (state != Z_OK && state != Z_STREAM_END)
      throw file_error(file, "begins as gzip does, and cannot be unpacked");
    text.append(some.data(), some.size() - stream.avail_out);
    if (text.size() > most)
      throw file_error(file, fmt::format("is larger than {} MiB", most >> 20));
    // Packed files that were joined are as many streams, one after the other.
    if (state == Z_STREAM_END && stream.avail_in > 0) state = inflateReset(&stream);
  }
  return text;
}

/// UTF-16 in which a table is ASCII: every other character becomes a question mark.
std::string narrowed(const std::string& bytes, std::size_t high) {
  std::string text;
  for (std::size_t i = 2; i + 1 < bytes.size(); i += 2)
    text += bytes[i + high] == '\0' ? bytes[i + 1 - high] : '?';
  return text;
}

constexpr const char* kMessageKeys[] = {"log", "message", "msg", "textPayload", "MESSAGE", "line"};

/// The text under one of the keys that log shippers put what was printed.
std::optional<std::string> message_of(const nlohmann::json& event) {
  if (!event.is_object()) return std::nullopt;
  for (const char* key : kMessageKeys)
    if (const auto found = event.find(key); found != event.end() && found->is_string())
      return found->get<std::string>();
  return std::nullopt;
}

std::string without_end(std::string text) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

/// Of level=info msg="a \"quoted\" text".
std::optional<std::string> from_logfmt(string_view line) {
  constexpr string_view kMark = " msg=\"";
  const auto at = line.find(kMark);
  if (at == string_view::npos || line.find("level=") == string_view::npos) return std::nullopt;
  std::string text;
  for (std::size_t i = at + kMark.size(); i < line.size() && line[i] != '"'; ++i) {
    if (line[i] == '\\' && i + 1 < line.size()) ++i;
    text += line[i];
  }
  return text;
}

}  // namespace

std::string readable(const std::string& file, std::string bytes, std::size_t most) {
  if (bytes.starts_with("\x1f\x8b")) bytes = unpacked(file, bytes, most);
  if (bytes.starts_with("\xff\xfe")) bytes = narrowed(bytes, 1);
  else if (bytes.starts_with("\xfe\xff")) bytes = narrowed(bytes, 0);
  // A space, as browsers copy it and pages spell it.
  for (const string_view no_break : {"\xc2\xa0", "&nbsp;", "&#160;"})
    for (std::size_t at = 0; (at = bytes.find(no_break, at)) != std::string::npos;)
      bytes.replace(at, no_break.size(), no_break.size(), ' ');
  for (std::size_t i = 0; i < bytes.size(); ++i)  // "\r\n" is the reader's business
    if (bytes[i] == '\r' && i + 1 < bytes.size() && bytes[i + 1] != '\n' && bytes[i + 1] != '\r')
      bytes[i] = '\n';
  return bytes;
}

std::optional<std::string> unwrapped(string_view line) {
  while (line.starts_with(' ') || line.starts_with('\t')) line.remove_prefix(1);
  while (line.ends_with(' ') || line.ends_with(',')) line.remove_suffix(1);
  if (!line.starts_with('{') || !line.ends_with('}')) {
    auto text = from_logfmt(line);
    return text ? std::optional(without_end(std::move(*text))) : std::nullopt;
  }
  // What is nested deeper holds nothing that was printed.
  const auto shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    return depth <= 1;
  };
  const auto event = nlohmann::json::parse(line, shallow, false);
  if (event.is_discarded()) return std::nullopt;
  auto text = message_of(event);
  return text ? std::optional(without_end(std::move(*text))) : std::nullopt;
}

std::optional<std::string> lines_of_events(const nlohmann::json& all) {
  const auto events = all.is_object() ? all.find("events") : all.end();
  const nlohmann::json& list = all.is_object() && events != all.end() ? *events : all;
  if (!list.is_array() || list.empty()) return std::nullopt;
  std::string text;
  for (const nlohmann::json& event : list) {
    const auto line = message_of(event);
    if (!line) return std::nullopt;
    text += without_end(*line) + "\n";
  }
  return text;
}

namespace {

/// The line from there on, short enough to be quoted.
std::string quoted_part(string_view line, std::size_t from) {
  constexpr std::size_t kMost = 120;
  std::string text(line.substr(from, kMost));
  std::erase_if(text, [](char c) { return c < ' ' || c > '~'; });
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

}  // namespace

std::string warning_in(string_view line) {
  const std::size_t at = line.find("NCCL WARN");
  return at == string_view::npos ? "" : quoted_part(line, at);
}

std::optional<std::string> failure_in(string_view line) {
  static constexpr string_view kMarks[] = {
      "Test NCCL failure", "Test CUDA failure", "Test timeout",  // nccl-tests, common.h
      "mpirun noticed that", "prterun noticed that", "mpiexec noticed that",
      "MPI_ABORT was invoked", "ORTE has lost communication", "PRTE has lost communication",
      "Primary job  terminated", "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
      "srun: error:", "slurmstepd: error:", "command terminated with exit code", "OOMKilled",
      "oom-kill", "Out of memory: Killed", "NVRM: Xid", "Signal: Segmentation fault",
      "Signal: Aborted", "Segmentation fault", "terminate called after throwing",
      "Watchdog caught collective operation timeout",
      // NCCL's warnings of a transfer that failed: net_ib.cc, and the plugin's
      "Got completion from peer", "Request completed with error"};
  const auto* const found =
      std::find_if(std::begin(kMarks), std::end(kMarks),
                   [&](string_view mark) { return line.find(mark) != string_view::npos; });
  if (found == std::end(kMarks)) return std::nullopt;
  return quoted_part(line, line.find(*found));
}

}  // namespace foreduce
