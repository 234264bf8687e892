// Options that several commands share: where an answer goes, how it looks, and how much is
// simulated at a time.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "input/holds.hpp"
#include "scenarios/report/report.hpp"

namespace foreduce {

/// What a command does once all its arguments are known to be sound. Returns the exit status.
using Action = std::function<int()>;

/// Accepts the given words; another is an error that names the nearest.
CLI::Validator one_of(std::vector<std::string> words);
/// Accepts an element type by any of its names, and makes it foreduce's own.
CLI::Validator element_type();

/// Accepts files with one of the endings, ".yaml", and "" where a name needs none; and whatever is
/// there and no regular file. What a user wrote by hand is not overwritten by a slip.
CLI::Validator ends_in(std::vector<std::string> endings);

/// How an answer reaches its file.
enum class Writing : std::uint8_t {
  whole,  ///< into a file beside it, which takes its name once it is whole: the old answer or the
          ///< new
  lines   ///< line by line as they come, so that a sweep that is killed leaves what it has
};

/// Standard output or the file of -o. What cannot be written is an error, not a loss.
class Output {
 public:
  /// Finds out early whether the file can be written, and leaves it as it is until there is
  /// something to write. Throws InputError, also if it is the question itself.
  explicit Output(const std::string& name, const std::string& question = {},
                  Writing writing = Writing::whole);
  Output(const Output&) = delete;
  /// What was put stays, under the name that was asked for.
  ~Output();
  void put(const std::string& text);
  /// Gives what was put its name. Throws InputError.
  void finish();

 private:
  [[noreturn]] void fail() const;
  std::string name_, beside_;  // what is being written; empty: nothing yet
  int file_ = -1;
  bool in_place_ = false;  // line by line, or a device or a pipe, which has no beside
};
/// Throws InputError where both are names of one file.
void refuse_to_overwrite(const std::string& name, const std::string& question);
/// One text, whole. Throws InputError.
void write_output(const std::string& name, const std::string& text,
                  const std::string& question = {});

/// Which forms a command's answer has besides table, csv, json and markdown.
enum class Forms : std::uint8_t { usual, with_nccl_tests, without_csv };

/// Where an answer goes, and how it looks.
class OutputOptions {
 public:
  /// `otherwise`: the form where nothing is asked for.
  void add_to(CLI::App& command, Forms forms = Forms::usual, Format otherwise = Format::table);
  /// `endings`: those that -o takes in the place of a report's where other options ask for
  /// something else; none where they do not.
  void take_endings(std::function<std::vector<std::string>()> endings) {
    endings_ = std::move(endings);
  }
  /// --explain, of commands whose answers have definitions, sources or long reasons.
  void add_explain_to(CLI::App& command);
  /// --html, of commands whose answer others are to see.
  void add_html_to(CLI::App& command);
  /// The format that was asked for; otherwise the one that the ending of -o names; otherwise the
  /// command's own.
  Format format() const;
  View view() const;
  const std::string& file() const { return output_; }
  /// Of --html; empty: no page is asked for.
  const std::string& html_file() const { return html_; }
  /// Renders the report and writes it. `question` is a file that must not be overwritten.
  void write(const Json& report, const std::string& question = {}) const;

 private:
  std::string format_, output_, html_;
  Format otherwise_ = Format::table;
  std::function<std::vector<std::string>()> endings_;
  bool wide_ = false, explain_ = false;
};

/// Where an answer goes: -o or standard output, and --html.
class Answer {
 public:
  /// As Output; that no file can be written is known before the work. Throws InputError.
  explicit Answer(const OutputOptions& options, const std::string& question = {},
                  Writing writing = Writing::whole);
  /// Lines of an answer that comes line by line.
  void put_lines(const std::string& lines) { out_.put(lines); }
  /// Renders the report into both files.
  void put(const Json& report);
  /// Renders it into the page only, where the lines of an answer are written.
  void put_page(const Json& report);
  void finish();

 private:
  const OutputOptions& options_;
  Output out_, page_;
};

/// How many simulations run at a time, and whether long pipelines are extrapolated.
class SimulationOptions {
 public:
  void add_to(CLI::App& command);
  /// With a progress bar on a terminal, and Ctrl-C or SIGTERM as the end.
  BatchOptions batch() const;

 private:
  int jobs_ = 0;
  double point_timeout_ = 0;
  std::string max_memory_;
  bool full_pipelines_ = false, no_cache_ = false;
};

/// Keeps the command line, which a page shows.
void remember_command(int argc, const char* const* argv);
const std::string& typed_command();

/// Columns that text on standard output may have: what COLUMNS or the terminal says, else 100.
int terminal_width();
/// An error for standard error, whose lists fit that terminal likewise.
std::string error_text(const InputError& error);

/// Exit status after Ctrl-C or SIGTERM, as of a process that SIGINT ends.
inline constexpr int kInterruptedStatus = 130;
/// Whether Ctrl-C or SIGTERM asked for the end.
bool interrupted();
/// Shows on standard error, where that is a terminal, how much is done of work that takes over a
/// second. Elsewhere it is empty. `counted`: "simulations".
std::function<void(std::size_t done, std::size_t total)> progress_of(std::string counted);
/// Removes the progress bar, if there is one, before something else is written.
void clear_progress();

/// As in a scenario, a value that is named twice counts once: where it is named first.
template <class Value>
std::vector<Value> each_once(const std::vector<Value>& values) {
  std::vector<Value> once;
  for (const Value& value : values)
    if (!holds(once, value)) once.push_back(value);
  return once;
}

/// "8B:1GiB:x4", "8 B,1 MiB,…" or both in one list: sizes as nccl-tests would step through them.
/// Throws InputError.
std::vector<Bytes> parse_sizes(const std::string& text);

/// -o. "-" is standard output, as without it.
CLI::Option* add_output_option(
    CLI::App& command, std::string& file,
    const std::string& help = "Write to this file instead of standard output.");
/// --collective, by nccl-tests' names, with the sizes that each is counted by.
CLI::Option* add_collective_option(CLI::App& command, std::string& collective);

/// --timed-by: who calls, see models/caller.hpp.
CLI::Option* add_caller_option(CLI::App& command, std::string& caller);

/// --set: values in place of those of a scenario file, as `assignments` of KEY=VALUE.
CLI::Option* add_set_option(CLI::App& command, std::vector<std::string>& assignments);

/// Adds examples below a command's help, a line each.
void add_examples(CLI::App& command, const std::vector<std::string>& examples);

// The commands, one a file. When one is chosen, `action` becomes its work.
void add_predict(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_tune(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_calibrate(CLI::App& app, Action& action);
void add_validate(CLI::App& app, Action& action);
void add_topology(CLI::App& app, Action& action);
void add_workload(CLI::App& app, Action& action);
void add_list(CLI::App& app, Action& action);
void add_algorithm_command(CLI::App& app, Action& action);
void add_test_algorithm(CLI::App& app, Action& action);
void add_cache(CLI::App& app, Action& action);
void add_show_and_merge(CLI::App& app, Action& action);
void add_schema_and_docs(CLI::App& app, Action& action);

/// The algorithm between nodes that --inner asks for, or the usual one. Throws InputError where it
/// was asked for and none of these takes one.
std::string inner_algorithm(const std::vector<const Algorithm*>& algorithms,
                            const std::string& asked);

}  // namespace foreduce
