// What the commands share: where answers go, and words that several of them take.
#pragma once

#include <CLI/CLI.hpp>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "scenarios/report/report.hpp"

namespace foreduce {

/// What a command leaves for main to do once all arguments are known to be sound. Returns the exit status.
using Action = std::function<int()>;

/// What every command takes.
struct Common {
  std::string format = "table", output, shard;
  int jobs = 0;
  bool no_cost = false;

  void add_to(CLI::App& command, bool simulates);
  Format wanted() const { return format == "json" ? Format::json : format == "csv" ? Format::csv : Format::table; }
  bool colour() const;
  void write(const std::string& text, const std::string& question = {}) const;
};

/// Standard output or the file of -o. What cannot be written is an error, not a loss.
class Output {
 public:
  /// Finds out early whether the file can be written, and leaves it as it is until there is something to write. Throws InputError,
  /// also if it is the question itself.
  explicit Output(const std::string& name, const std::string& question = {});
  Output(const Output&) = delete;
  ~Output();
  void put(const std::string& text);

 private:
  void check() const;
  std::string name_;
  bool made_ = false;  // the file was not there before, and nothing has been written
  std::ofstream file_;
};

/// "8B:1GiB:x4" or "8 B,1 MiB,…": sizes as nccl-tests would step through them. Throws InputError.
std::vector<Bytes> parse_sizes(const std::string& text);

/// The element type of that name (f32, f64, f16, bf16, i32, or nccl-tests' and PyTorch's names for them). Throws InputError.
Type parse_type(const std::string& name);

}  // namespace foreduce
