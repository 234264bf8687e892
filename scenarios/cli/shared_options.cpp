#include "scenarios/cli/shared_options.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace foreduce {
namespace {

const std::vector<std::pair<std::string, Format>>& format_names() {
  static const std::vector<std::pair<std::string, Format>> all = {
      {"table", Format::table},
      {"csv", Format::csv},
      {"json", Format::json},
      {"markdown", Format::markdown},
      {"nccl-tests", Format::nccl_tests}};
  return all;
}

volatile std::sig_atomic_t signalled = 0;

/// One line on stderr, when that is a terminal and the work takes over a second.
class ProgressBar {
 public:
  void show(std::size_t done, std::size_t total) {
    const double passed = std::chrono::duration<double>(Clock::now() - start_).count();
    if (passed < 1 || passed - last_ < 0.1) return;
    last_ = passed;
    const double left = passed / static_cast<double>(done) * static_cast<double>(total - done);
    const auto filled = static_cast<int>(30 * done / total);
    std::fputs(fmt::format(
                   "\r\033[K[{:#<{}}{:.<{}}] {}/{} simulations, {:.1f} a second, {:.0f} s left", "",
                   filled, "", 30 - filled, done, total, static_cast<double>(done) / passed, left)
                   .c_str(),
               stderr);
    shown_ = true;
  }
  void clear() {
    if (shown_) std::fputs("\r\033[K", stderr);
    shown_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  double last_ = 0;
  bool shown_ = false;
};

ProgressBar& progress_bar() {
  static ProgressBar bar;
  return bar;
}

}  // namespace

int terminal_width() {
  if (const char* columns = std::getenv("COLUMNS")) {
    double asked = 0;
    std::string why;
    if (parse_number(columns, asked, why) && asked >= 1 && asked <= 10000)
      return std::max(60, static_cast<int>(asked));
  }
  winsize size{};
  if (::isatty(STDOUT_FILENO) != 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
      size.ws_col > 0)
    return std::max(60, int{size.ws_col});
  return 100;
}

CLI::Validator one_of(std::vector<std::string> words) {
  const std::string description = fmt::format("{{{}}}", fmt::join(words, ","));
  CLI::Validator validator(
      [words = std::move(words)](std::string& word) {
        if (std::find(words.begin(), words.end(), word) != words.end()) return std::string();
        return fmt::format("'{}' is not accepted here\n  {}", word, suggest(word, words));
      },
      description);
  return validator;
}

Output::Output(const std::string& name, const std::string& question) : name_(name) {
  if (name_.empty()) return;
  std::error_code none;
  if (std::filesystem::equivalent(name_, question, none))
    throw file_error(name_, "-o would write the answer over the question");
  made_ = !std::filesystem::exists(std::filesystem::symlink_status(name_, none));
  file_.open(name_, std::ios::binary | std::ios::app);
  check();
  file_.close();
}

Output::~Output() {
  std::error_code none;
  if (made_ && std::filesystem::file_size(name_, none) == 0)
    std::filesystem::remove(name_, none);  // a process of ours may have written it
}

void Output::put(const std::string& text) {
  made_ = false;
  if (!name_.empty() && !file_.is_open()) file_.open(name_, std::ios::binary | std::ios::trunc);
  if (name_.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (std::fflush(stdout) != 0) throw input_error("standard output cannot be written");
    return;
  }
  file_ << text << std::flush;
  check();
}

void Output::check() const {
  if (!file_) throw file_error(name_, "cannot be written");
}

void OutputOptions::add_to(CLI::App& command, Forms forms) {
  std::vector<std::string> names;
  for (const auto& [name, format] : format_names())
    if (format != Format::nccl_tests || forms == Forms::with_nccl_tests) names.push_back(name);
  command
      .add_option("--format", format_,
                  "Form of the answer. Without it, the ending of -o decides (.csv, .json, .md); "
                  "otherwise table.")
      ->check(one_of(names));
  command.add_option("-o,--output", output_,
                     "Write the answer to this file instead of standard output.");
  command.add_flag("--wide", wide_, "Show all columns and rows, however long the lines.");
  command.add_flag("--explain", explain_,
                   "Add definitions, sources and long reasons below the table.");
}

Format OutputOptions::format() const {
  for (const auto& [name, format] : format_names())
    if (name == format_) return format;
  const std::string ending = std::filesystem::path(output_).extension().string();
  return ending == ".json"  ? Format::json
         : ending == ".csv" ? Format::csv
         : ending == ".md"  ? Format::markdown
                            : Format::table;
}

View OutputOptions::view() const {
  const bool screen = output_.empty() && ::isatty(STDOUT_FILENO) != 0;
  return {format(), wide_, explain_, screen && !std::getenv("NO_COLOR"),
          output_.empty() ? terminal_width() : 100};
}

void OutputOptions::write(const Json& report, const std::string& question) const {
  Output(output_, question).put(render(report, view()));
}

void SimulationOptions::add_to(CLI::App& command) {
  command.add_option("--jobs", jobs_, "Run so many simulations at a time. Default: one a core.")
      ->check(CLI::Range(1, 4096));
  command.add_flag(
      "--full-pipelines", full_pipelines_,
      "Simulate long pipelines in full instead of extrapolating them from their steady state.");
}

BatchOptions SimulationOptions::batch() const {
  BatchOptions options;
  options.jobs = jobs_;
  options.long_pipelines =
      full_pipelines_ ? LongPipelines::simulate_whole : LongPipelines::extrapolate;
  if (::isatty(STDERR_FILENO) != 0)
    options.progress = [](std::size_t done, std::size_t total) {
      progress_bar().show(done, total);
    };
  options.stop = [] { return signalled != 0; };
  struct sigaction action {};
  action.sa_handler = [](int) { signalled = 1; };
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  return options;
}

bool interrupted() { return signalled != 0; }
void clear_progress() { progress_bar().clear(); }

std::vector<Bytes> parse_sizes(const std::string& text) {
  const auto size = [&](std::string word) {
    double value = 0;
    std::string why;
    if (!parse_quantity(word, UnitsOf<Bytes>::table, "size", value, why))
      throw input_error("--sizes: " + why, "e.g. --sizes 8B:1GiB:x4 or --sizes '1 MiB,64 MiB'");
    if (value < 0 || value > kMostOf<Bytes>)
      throw input_error(fmt::format("--sizes: '{}' is out of range", word));
    return Bytes{value};
  };
  std::vector<Bytes> sizes;
  if (const auto first = text.find(':'); first != std::string::npos) {
    const auto second = text.find(':', first + 1);
    const Bytes low = size(text.substr(0, first)),
                high =
                    size(text.substr(first + 1, second == std::string::npos ? std::string::npos
                                                                            : second - first - 1));
    double factor = 2;
    std::string why;
    if (second != std::string::npos &&
        (text[second + 1] != 'x' || !parse_number(text.substr(second + 2), factor, why)))
      throw input_error("--sizes: a range is low:high or low:high:xFACTOR",
                        "e.g. --sizes 8B:1GiB:x4");
    if (factor < 1.1 || low.value <= 0 || low > high)
      throw input_error("--sizes: the range must rise, by a factor of at least 1.1",
                        "e.g. --sizes 8B:1GiB:x4");
    for (double s = low.value; s <= high.value * (1 + 1e-9); s *= factor)
      sizes.emplace_back(std::round(s));
    return sizes;
  }
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const auto first = word.find_first_not_of(' ');
    sizes.push_back(size(first == std::string::npos
                             ? word
                             : word.substr(first, word.find_last_not_of(' ') - first + 1)));
  }
  if (sizes.empty()) throw input_error("--sizes: no size is given");
  return sizes;
}

void add_examples(CLI::App& command, const std::vector<std::string>& examples) {
  command.footer(fmt::format("Examples:\n  {}", fmt::join(examples, "\n  ")));
}

}  // namespace foreduce
