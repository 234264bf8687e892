#include "scenarios/cli/shared_options.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace foreduce {

void Common::add_to(CLI::App& command, bool simulates) {
  command.add_option("--format", format, "table, csv or json")
      ->check(CLI::IsMember({"table", "csv", "json"}))
      ->capture_default_str();
  command.add_option("-o,--output", output, "write to this file instead of standard output");
  if (!simulates) return;
  command.add_option("--jobs", jobs, "simulations at a time; default: one a core")->check(CLI::Range(1, 4096));
  command.add_option(
      "--shard", shard,
      "K/N: only the K-th part of the points; default: from SLURM_ARRAY_TASK_ID and _COUNT or AWS_BATCH_JOB_ARRAY_INDEX and _SIZE");
  command.add_flag("--no-cost", no_cost, "leave out what each point cost to simulate: equal questions then give equal bytes");
}

bool Common::colour() const { return output.empty() && ::isatty(STDOUT_FILENO) != 0 && !std::getenv("NO_COLOR"); }

void Common::write(const std::string& text, const std::string& question) const { Output(output, question).put(text); }

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

std::vector<Bytes> parse_sizes(const std::string& text) {
  const auto size = [&](std::string word) {
    double value = 0;
    std::string why;
    if (!parse_quantity(word, UnitsOf<Bytes>::table, "size", value, why))
      throw input_error("--sizes: " + why, "e.g. --sizes 8B:1GiB:x4 or --sizes '1 MiB,64 MiB'");
    if (value < 0 || value > kMostOf<Bytes>) throw input_error(fmt::format("--sizes: '{}' is out of range", word));
    return Bytes{value};
  };
  std::vector<Bytes> sizes;
  if (const auto first = text.find(':'); first != std::string::npos) {
    const auto second = text.find(':', first + 1);
    const Bytes low = size(text.substr(0, first)),
                high = size(text.substr(first + 1, second == std::string::npos ? std::string::npos : second - first - 1));
    double factor = 2;
    std::string why;
    if (second != std::string::npos && (text[second + 1] != 'x' || !parse_number(text.substr(second + 2), factor, why)))
      throw input_error("--sizes: a range is low:high or low:high:xFACTOR", "e.g. --sizes 8B:1GiB:x4");
    if (factor < 1.1 || low.value <= 0 || low > high)
      throw input_error("--sizes: the range must rise, by a factor of at least 1.1", "e.g. --sizes 8B:1GiB:x4");
    for (double s = low.value; s <= high.value * (1 + 1e-9); s *= factor) sizes.emplace_back(std::round(s));
    return sizes;
  }
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const auto first = word.find_first_not_of(' ');
    sizes.push_back(size(first == std::string::npos ? word : word.substr(first, word.find_last_not_of(' ') - first + 1)));
  }
  if (sizes.empty()) throw input_error("--sizes: no size is given");
  return sizes;
}

Type parse_type(const std::string& name) {
  static const std::vector<std::pair<std::string, Type>> kNames = {
      {"f32", Type::f32},     {"f64", Type::f64},       {"f16", Type::f16},    {"bf16", Type::bf16},   {"i32", Type::i32},
      {"float", Type::f32},   {"float32", Type::f32},   {"double", Type::f64}, {"float64", Type::f64}, {"half", Type::f16},
      {"float16", Type::f16}, {"bfloat16", Type::bf16}, {"int32", Type::i32}};
  std::vector<std::string> known;
  for (const auto& [word, type] : kNames) {
    if (word == name) return type;
    known.push_back(word);
  }
  throw input_error(fmt::format("there is no element type '{}'", name), suggest(name, known));
}

}  // namespace foreduce
