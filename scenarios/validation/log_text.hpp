// What a program printed, of the bytes of a file that a terminal, a container's runtime or a log
// shipper made of it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace foreduce {

/// The text of a file's bytes: unpacked where gzip packed it, in UTF-8 where it was in UTF-16, with
/// a line feed where a carriage return alone ended a line. Throws InputError (named `file`) for
/// what gzip cannot unpack, or unpacks to more than `most` bytes.
std::string readable(const std::string& file, std::string bytes, std::size_t most);

/// A line without the backslashes that Markdown's editors put before _ and #.
std::string without_escapes(std::string_view line);

/// What was printed, of a line that something wrapped: {"log": "…"} (Docker), {"message": "…"}
/// (CloudWatch and others), or level=info msg="…" (logfmt). Nothing where it is not wrapped.
std::optional<std::string> unwrapped(std::string_view line);
/// The lines of an exported list of events, [{"message": "…"}] or {"events": […]}; nothing where
/// JSON is no such list.
std::optional<std::string> lines_of_events(const nlohmann::json& all);

/// A text whose long lines were cut at the width of a terminal, with those lines whole again: each
/// is where it began, and empty lines stand for its other pieces. Nothing where hardly any
/// long row goes on in the next line, by which such a text is known.
std::optional<std::string> unfolded(std::string_view text);

/// The line from there on, short enough to be quoted.
std::string quoted_part(std::string_view line, std::size_t from);
/// NCCL's warning in a line, shortened; empty if it has none.
std::string warning_in(std::string_view line);
/// Where a line says that a run failed or was killed, that part of it, to be quoted.
std::optional<std::string> failure_in(std::string_view line);

}  // namespace foreduce
