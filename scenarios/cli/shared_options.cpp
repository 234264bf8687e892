#include "scenarios/cli/shared_options.hpp"

#include <fmt/format.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <set>
#include <utility>

#include "input/text_stream.hpp"
#include "models/caller.hpp"
#include "scenarios/cli/pace.hpp"

namespace foreduce {
namespace {

const std::vector<std::pair<std::string, Format>>& format_names() {
  static const std::vector<std::pair<std::string, Format>> all = {
      {"table", Format::table},       {"csv", Format::csv},   {"json", Format::json},
      {"markdown", Format::markdown}, {"html", Format::html}, {"nccl-tests", Format::nccl_tests}};
  return all;
}

volatile std::sig_atomic_t signalled = 0;

/// A word as a shell takes it.
std::string quoted(const std::string& word) {
  static const std::string kPlain =
      "-_./,:=+@%^ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string& command_line() {
  static std::string line;
  return line;
}

/// One line on stderr, when that is a terminal and the work takes over a second.
class ProgressBar {
 public:
  void show(std::size_t done, std::size_t total, const std::string& counted) {
    const double now = std::chrono::duration<double>(Clock::now() - start_).count();
    pace_.reached(done, total, now);
    if (now < 1 || now - last_ < 0.1) return;
    last_ = now;
    const auto filled = static_cast<int>(30 * done / std::max<std::size_t>(1, total));
    const std::string line = fmt::format("\r\033[K[{:#<{}}{:.<{}}] {}/{} {}{}", "", filled, "",
                                         30 - filled, done, total, counted, pace_.words());
    std::fputs(line.c_str(), stderr);
    shown_ = true;
  }
  void clear() {
    if (shown_) std::fputs("\r\033[K", stderr);
    shown_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  Pace pace_;
  double last_ = 0;
  bool shown_ = false;
};

ProgressBar& progress_bar() {
  static ProgressBar bar;
  return bar;
}

}  // namespace

void remember_command(int argc, const char* const* argv) {
  command_line() = "foreduce";
  for (int i = 1; i < argc; ++i) command_line() += " " + quoted(argv[i]);
}
const std::string& typed_command() { return command_line(); }

namespace {

int width_of(int file) {
  if (const char* columns = std::getenv("COLUMNS")) {
    double asked = 0;
    std::string why;
    if (parse_number(columns, asked, why) && asked >= 1 && asked <= 10000)
      return std::max(60, static_cast<int>(asked));
  }
  winsize size{};
  if (::isatty(file) != 0 && ::ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return std::max(60, int{size.ws_col});
  return 100;
}

}  // namespace

int terminal_width() { return width_of(STDOUT_FILENO); }
std::string error_text(const InputError& error) { return error.text(width_of(STDERR_FILENO)); }

CLI::Validator one_of(std::vector<std::string> words) {
  const std::string description = fmt::format("{{{}}}", fmt::join(words, ","));
  CLI::Validator validator(
      [words = std::move(words)](std::string& word) {
        if (std::find(words.begin(), words.end(), word) != words.end()) return std::string();
        for (const std::string& one : words)
          if (CLI::detail::to_lower(one) == CLI::detail::to_lower(word)) {
            word = one;
            return std::string();
          }
        return fmt::format("'{}' is not accepted here\n  {}", word, suggest(word, words));
      },
      description);
  return validator;
}

CLI::Validator element_type() {
  const CLI::Validator names = one_of(names_of<Type>());
  return {[names](std::string& word) {
            if (const auto type = type_of_word(word)) word = to_text(*type);
            return names(word);
          },
          names.get_description()};
}

void refuse_to_overwrite(const std::string& name, const std::string& question) {
  std::error_code none;
  if (std::filesystem::equivalent(name, question, none))
    throw file_error(name, "-o would overwrite a file that this answer is made from");
}

Output::Output(const std::string& name, const std::string& question, Writing writing)
    : name_(name) {
  if (name_.empty()) return;
  std::error_code none;
  refuse_to_overwrite(name_, question);
  const std::filesystem::path path(name_);
  const auto status = std::filesystem::status(path, none);
  if (std::filesystem::is_directory(status)) fail();
  // Neither a pipe nor a file without a name (/proc/self/fd/3) has a beside.
  in_place_ = writing == Writing::lines ||
              (std::filesystem::exists(status) &&
               (!std::filesystem::is_regular_file(status) ||
                !std::filesystem::exists(std::filesystem::weakly_canonical(path, none), none)));
  const bool writable = std::filesystem::exists(status) ? ::access(name_.c_str(), W_OK) == 0 : true;
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  if (!writable || (!in_place_ && ::access(folder.c_str(), W_OK | X_OK) != 0) ||
      path.filename().string().size() > NAME_MAX)
    fail();
}

Output::~Output() {
  try {
    finish();
  } catch (const InputError& e) {  // a destructor cannot tell otherwise
    std::cerr << error_text(e) << "\n";
  }
}

void Output::put(const std::string& text) {
  if (name_.empty()) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
      throw input_error("standard output cannot be written");
    return;
  }
  if (file_ < 0 && in_place_)
    file_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0 && !in_place_) {
    std::error_code none;
    const auto real = std::filesystem::weakly_canonical(name_, none);  // a link stays a link
    if (!none) name_ = real.string();
    beside_ = name_.substr(0, name_.rfind('/') + 1) + ".foreduce-XXXXXX";
    file_ = ::mkostemp(beside_.data(), O_CLOEXEC);
  }
  if (file_ < 0) fail();
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(file_, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      ::close(std::exchange(file_, -1));
      if (!beside_.empty()) ::unlink(std::exchange(beside_, {}).c_str());
      fail();
    }
    at += static_cast<std::size_t>(n);
  }
}

void Output::finish() {
  if (file_ < 0) return;
  const int file = std::exchange(file_, -1);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  struct stat before {};
  const mode_t mode = ::stat(name_.c_str(), &before) == 0 ? before.st_mode & 07777 : 0666 & ~mask;
  const bool whole = in_place_ || (::fchmod(file, mode) == 0 && ::fsync(file) == 0);
  const bool closed = ::close(file) == 0;
  const std::string beside = std::exchange(beside_, {});
  if (whole && closed && (in_place_ || ::rename(beside.c_str(), name_.c_str()) == 0)) return;
  if (!beside.empty()) ::unlink(beside.c_str());
  fail();
}

void write_output(const std::string& name, const std::string& text, const std::string& question) {
  Output out(name, question);
  out.put(text);
  out.finish();
}

void Output::fail() const { throw file_error(name_, "cannot be written"); }

namespace {

/// "csv" of "x.CSV".
std::string ending_of(const std::string& file) {
  std::string ending = std::filesystem::path(file).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending.empty() ? "" : ending.substr(1);
}

/// What is wrong with the ending of a file's name; "" of standard output, devices and pipes too.
std::string ending_refused(const std::string& file, const std::vector<std::string>& accepted) {
  std::error_code none;
  const auto status = std::filesystem::status(file, none);
  // Standard output may be redirected into a file of any name.
  const bool device = file.starts_with("/dev/") || file.starts_with("/proc/");
  if (file.empty() || device ||
      (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)))
    return "";
  const std::string ending = ending_of(file).empty() ? "" : "." + ending_of(file);
  if (std::find(accepted.begin(), accepted.end(), ending) != accepted.end()) return "";
  std::vector<std::string> shown;
  std::copy_if(accepted.begin(), accepted.end(), std::back_inserter(shown),
               [](const std::string& one) { return !one.empty(); });
  return fmt::format("{}\n  {}",
                     ending.empty() ? fmt::format("'{}' has no ending", file)
                                    : ending + " files cannot be written here",
                     suggest(ending, shown));
}

/// Endings of the forms that a report has. Without any, it is as if -o were not there.
std::vector<std::string> report_endings(Forms forms) {
  std::vector<std::string> all = {".txt", ".json", ".md", ".html", ".log", ""};
  if (forms != Forms::without_csv) all.insert(all.begin() + 1, ".csv");
  return all;
}

}  // namespace

CLI::Validator ends_in(std::vector<std::string> endings) {
  return {[endings = std::move(endings)](const std::string& file) {
            return ending_refused(file, endings);
          },
          ""};
}

void OutputOptions::add_to(CLI::App& command, Forms forms, Format otherwise) {
  otherwise_ = otherwise;
  std::vector<std::string> names;
  for (const auto& [name, format] : format_names())
    if ((format != Format::nccl_tests || forms == Forms::with_nccl_tests) &&
        (format != Format::csv || forms != Forms::without_csv))
      names.push_back(name);
  command
      .add_option("--format", format_,
                  fmt::format("Form of the answer. Without it, the ending of -o decides ({}.json, "
                              ".md, .html; text: .txt, .log or none); otherwise {}.",
                              forms == Forms::without_csv ? "" : ".csv, ",
                              otherwise == Format::json ? "json" : "table"))
      ->transform(one_of(names));
  add_output_option(command, output_, "Write the answer to this file instead of standard output.")
      ->check([this, forms](const std::string& file) {
        const auto others = endings_ ? endings_() : std::vector<std::string>();
        return ending_refused(file, others.empty() ? report_endings(forms) : others);
      });
  command.add_flag("--wide", wide_, "Show all columns and rows, however long the lines.");
}

void OutputOptions::add_explain_to(CLI::App& command) {
  command.add_flag("--explain", explain_,
                   "Add definitions, sources and long reasons below the table.");
}

Format OutputOptions::format() const {
  for (const auto& [name, format] : format_names())
    if (name == format_) return format;
  const std::string ending = ending_of(output_);
  return ending == "json"                     ? Format::json
         : ending == "csv"                    ? Format::csv
         : ending == "md"                     ? Format::markdown
         : ending == "html"                   ? Format::html
         : ending == "txt" || ending == "log" ? Format::table
                                              : otherwise_;
}

View OutputOptions::view() const {
  const bool screen = output_.empty() && ::isatty(STDOUT_FILENO) != 0;
  return {format(),
          wide_,
          explain_,
          screen && !std::getenv("NO_COLOR"),
          output_.empty() ? terminal_width() : 100,
          typed_command()};
}

void OutputOptions::add_html_to(CLI::App& command) {
  command
      .add_option("--html", html_,
                  "Also write the answer as a page into this file: tables and charts that any "
                  "browser shows, without a network.")
      ->check(ends_in({".html", ".htm"}));
}

Answer::Answer(const OutputOptions& options, const std::string& question, Writing writing)
    : options_(options),
      out_(options.file(), question, writing),
      page_(options.html_file(), question) {
  if (!options.html_file().empty() && options.html_file() == options.file())
    throw file_error(options.file(), "-o and --html would write the same file");
}

void Answer::put(const Json& report) {
  out_.put(render(report, options_.view()));
  put_page(report);
}

void Answer::put_page(const Json& report) {
  if (options_.html_file().empty()) return;
  View view = options_.view();
  view.format = Format::html;
  page_.put(render(report, view));
}

void Answer::finish() {
  out_.finish();
  page_.finish();
}

void OutputOptions::write(const Json& report, const std::string& question) const {
  Answer answer(*this, question);
  answer.put(report);
  answer.finish();
}

void SimulationOptions::add_to(CLI::App& command) {
  command.add_option("--jobs", jobs_, "Run so many simulations at a time. Default: one a core.")
      ->check(CLI::Range(1, 4096));
  command.add_option("--max-memory", max_memory_,
                     "Refuse a simulation that would take more, e.g. 8GiB. Default: this machine's "
                     "memory, shared by the simulations at a time.");
  command
      .add_option("--point-timeout", point_timeout_,
                  "End a simulation that takes more seconds. Default: none does.")
      ->check(CLI::Range(0.001, 1e9));
  command.add_flag(
      "--no-cache", no_cache_,
      "Simulate everything, whatever earlier runs have answered (see foreduce cache).");
  command.add_flag(
      "--full-pipelines", full_pipelines_,
      "Simulate long pipelines, trees over more than 1,024 nodes (double trees over an "
      "odd number: 512; NVLS's: 2,048; of one rank a node a quarter) and rings around many nodes "
      "in full instead of "
      "telling them from fewer.");
}

BatchOptions SimulationOptions::batch() const {
  BatchOptions options;
  options.jobs = jobs_;
  options.most_seconds = point_timeout_;
  if (!no_cache_) options.cache = cache_folder();
  std::string why;
  if (!max_memory_.empty() &&
      (!parse_quantity(max_memory_, UnitsOf<Bytes>::table, "size", options.max_memory.value, why) ||
       options.max_memory.value <= 0))
    throw input_error("--max-memory: " + (why.empty() ? "it must be more than zero" : why),
                      "e.g. --max-memory 8GiB");
  options.long_pipelines =
      full_pipelines_ ? LongPipelines::simulate_whole : LongPipelines::extrapolate;
  options.progress = progress_of("simulations");
  options.warn = [said = std::make_shared<std::set<std::string>>()](const std::string& notice) {
    if (said->insert(notice).second) std::cerr << "warning: " << notice << '\n';
  };
  // A folder that somebody asked for; a home that cannot be written is none.
  if (const std::string unkept = why_nothing_is_kept(options.cache);
      !options.cache.empty() && std::getenv("FOREDUCE_CACHE") && !unkept.empty())
    options.warn(fmt::format("FOREDUCE_CACHE: no simulation is kept: {}", unkept));
  options.stop = [] { return signalled != 0; };
  struct sigaction action {};
  action.sa_handler = [](int) { signalled = 1; };
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  return options;
}

std::function<void(std::size_t, std::size_t)> progress_of(std::string counted) {
  if (::isatty(STDERR_FILENO) == 0) return {};
  progress_bar();  // its time begins
  return [counted = std::move(counted)](std::size_t done, std::size_t total) {
    progress_bar().show(done, total, counted);
  };
}

bool interrupted() { return signalled != 0; }
void clear_progress() { progress_bar().clear(); }

namespace {

constexpr const char* kSizesExample =
    "e.g. --sizes 8B:1GiB:x4 or --sizes '8 B,1 MiB' or --sizes 8B,1MiB:1GiB:x2";

}  // namespace

std::vector<Bytes> parse_sizes(const std::string& text) {
  std::vector<Bytes> sizes;
  TextStream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (const auto first = word.find_first_not_of(' '); first != std::string::npos)
      word = word.substr(first, word.find_last_not_of(' ') - first + 1);
    std::string why;
    if (!parse_size_range(word, sizes, why)) throw input_error("--sizes: " + why, kSizesExample);
  }
  if (sizes.empty()) throw input_error("--sizes: no size is given");
  return each_once(sizes);
}

CLI::Option* add_output_option(CLI::App& command, std::string& file, const std::string& help) {
  const CLI::Validator standard_output(
      [](std::string& name) {
        if (name == "-") name.clear();
        return std::string();
      },
      "");
  return command.add_option("-o,--output", file, help)->transform(standard_output);
}

CLI::Option* add_collective_option(CLI::App& command, std::string& collective) {
  return command
      .add_option("--collective", collective,
                  "Which collective. Sizes are nccl-tests': of the send buffer for reduce_scatter, "
                  "of the receive buffer for all_gather, of either for the others.")
      ->transform(one_of(names_of<Collective>()))
      ->capture_default_str();
}

CLI::Option* add_caller_option(CLI::App& command, std::string& caller) {
  return command
      .add_option("--timed-by", caller,
                  "Which loop calls the collective: nccl-tests, or torch (torch.distributed from "
                  "Python, which waits for every call; models/callers.yaml has what that adds).")
      ->transform(one_of(caller_names()))
      ->capture_default_str();
}

CLI::Option* add_set_option(CLI::App& command, std::vector<std::string>& assignments) {
  return command
      .add_option("--set", assignments,
                  "KEY=VALUE: use this value in place of the file's, e.g. cluster.nodes=[2, 4], or "
                  "workload.measured[0].mfu=0.4 in a list. May be given several times.")
      ->allow_extra_args(false);
}

void add_examples(CLI::App& command, const std::vector<std::string>& examples) {
  command.footer(fmt::format("Examples:\n  {}", fmt::join(examples, "\n  ")));
}

std::string inner_algorithm(const std::vector<const Algorithm*>& algorithms,
                            const std::string& asked) {
  if (asked.empty()) return kUsualInner;
  if (std::none_of(algorithms.begin(), algorithms.end(),
                   [](const Algorithm* a) { return a->takes_inner; }))
    throw input_error(
        fmt::format("--inner: {} takes no other algorithm between nodes", algorithms[0]->name),
        "leave it out, or take hierarchical");
  return asked;
}

}  // namespace foreduce
