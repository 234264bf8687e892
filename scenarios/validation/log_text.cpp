#include "scenarios/validation/log_text.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "input/problem.hpp"
#include "scenarios/validation/nccl_words.hpp"

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

std::string without_escapes(string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i)
    if (line[i] != '\\' || i + 1 == line.size() || (line[i + 1] != '_' && line[i + 1] != '#'))
      plain += line[i];
  return plain;
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

std::vector<string_view> lines_of(string_view text) {
  std::vector<string_view> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    if (lines.back().ends_with('\r')) lines.back().remove_suffix(1);
    at = end + 1;
  }
  return lines;
}

bool is_end_of_heading(string_view word) {
  static constexpr string_view kHeadings[] = {"time", "algbw", "busbw", "#wrong", "error"};
  return std::any_of(std::begin(kHeadings), std::end(kHeadings),
                     [&](string_view heading) { return heading.ends_with(word); });
}

/// Whether a line is not empty, and holds nothing but such words.
template <class Is>
bool holds_only(string_view line, const Is& is) {
  const nccl_words::Words words = nccl_words::split(line);
  return !words.empty() && std::all_of(words.begin(), words.end(), is);
}

bool continues_row(string_view word) {
  return nccl_words::is_value(word) || is_end_of_heading(word);
}

bool begins_anew(string_view line) {
  const nccl_words::Words words = nccl_words::split(line);
  return (!words.empty() && words[0].starts_with('#') && words[0] != "#wrong") ||
         nccl_words::is_of_nccl(line) || nccl_words::row_begins(words);
}

/// Whether a heading or a row goes on in the next line.
bool is_cut(string_view line, string_view next) {
  constexpr std::size_t kShortest = 56;  // shorter ones end where NCCL's words come between
  if (line.size() < kShortest || begins_anew(next)) return false;
  const std::size_t size = line.find("size "), count = line.find(" count "),
                    type = line.find(" type ");
  const bool heading = size < count && count < type && type != string_view::npos;
  return (heading && holds_only(next, is_end_of_heading)) ||
         (nccl_words::row_begins(nccl_words::split(line)) &&
          holds_only(next, nccl_words::is_value));
}

}  // namespace

std::optional<std::string> unfolded(string_view text) {
  constexpr std::size_t kBlanks = 8;  // that a copy may lose behind a piece: less than a column
  constexpr int kCuts = 3;
  const std::vector<string_view> lines = lines_of(text);
  std::size_t width = 0;
  int cuts = 0;
  for (std::size_t i = 0; i + 1 < lines.size(); ++i)
    if (is_cut(lines[i], lines[i + 1])) {
      ++cuts;
      width = std::max(width, lines[i].size());
    }
  if (cuts < kCuts) return std::nullopt;
  // Where every cut lost blanks, another line may be as long as the terminal was wide.
  const std::size_t cut_most = width;
  for (const string_view line : lines)
    if (line.size() < cut_most + kBlanks) width = std::max(width, line.size());
  const auto goes_on = [&](std::size_t first, std::size_t last) {
    if (last + 1 == lines.size()) return false;
    const string_view line = lines[last], next = lines[last + 1];
    if (first == last && is_cut(line, next)) return true;
    if (next.empty() || line.size() + kBlanks <= width || begins_anew(next)) return false;
    const bool rank =
        lines[first].starts_with('#') && lines[first].find(" Rank ") != string_view::npos;
    return rank || (first < last && holds_only(next, continues_row));
  };
  std::string whole;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t first = i;
    whole += lines[i];
    for (; goes_on(first, i); ++i) {
      if (lines[i].size() < width) whole += ' ';  // where blanks were lost, no word was cut
      whole += lines[i + 1];
    }
    whole += std::string(1 + i - first, '\n');
  }
  return whole;
}

std::string quoted_part(string_view line, std::size_t from) {
  constexpr std::size_t kMost = 120;
  std::string text(line.substr(from, kMost));
  std::erase_if(text, [](char c) { return c < ' ' || c > '~'; });
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

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
