#include <fmt/format.h>

#include "input/counted.hpp"
#include "scenarios/report/written_files.hpp"

namespace foreduce {
namespace {

/// A key's line with where its value is from.
std::string line_with_source(const YamlLine& line, const ImportedMachine& m) {
  if (line.key == "-") return fmt::format("{}- {}\n", line.indent, line.value);
  if (line.value.empty()) return fmt::format("{}{}:\n", line.indent, line.key);
  const auto told = m.told.find(line.path);
  const bool own = line.path == "instance" || line.path == "note";
  if (line.path == "like")
    return fmt::format("like: {}    # whose profile and published runs apply\n", line.value);
  std::string text = fmt::format("{}{}: {}", line.indent, line.key, line.value);
  if (line.quantity) text += told != m.told.end() ? " @dump" : " @assumed";
  if (told != m.told.end()) text += fmt::format("    # {}", told->second);
  else if (!own) text += fmt::format("    # {}as {}", line.quantity ? "" : "assumed, ", m.base);
  return text + "\n";
}

}  // namespace

std::string machine_file(const ImportedMachine& m, const std::string& source) {
  std::string out = file_comment(fmt::format(
      "{}. @dump: what the dump told, and where. @assumed: what it did not tell, taken from {}.",
      source, m.base));
  for (const std::string& note : m.notes) out += file_comment(note);
  if (m.differences.empty()) out += file_comment(fmt::format("No difference from {}.", m.base));
  else out += file_comment(fmt::format("Differences from {}:", m.base));
  for (const std::string& difference : m.differences) out += file_comment("- " + difference);
  for (const YamlLine& line : lines_of(m.machine)) out += line_with_source(line, m);
  return out;
}

std::string import_summary(const ImportedMachine& imported, const std::string& file,
                           const View& view) {
  const Machine& m = imported.machine;
  std::string text =
      fmt::format("{}: {} x {}, {} x {}, {} PCIe switches or ports, {}\n", file, m.gpu->count,
                  m.gpu->model, m.nic.count, to_text(m.nic.bandwidth), m.pcie->switches.size(),
                  counted(m.host ? m.host->sockets : 0, "socket"));
  for (const std::string& note : imported.notes) text += wrapped(note, view, 2);
  text += imported.differences.empty() ? fmt::format("no difference from {}\n", imported.base)
                                       : fmt::format("differences from {}:\n", imported.base);
  for (const std::string& difference : imported.differences) text += "  " + difference + "\n";
  text += fmt::format("look at it: foreduce topology {}{}\n",
                      file.find('/') == std::string::npos ? "./" : "", file);
  return text;
}

}  // namespace foreduce
