// What was wrong with an input, told so that it can be mended: where, which key, what is accepted,
// what was meant.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace foreduce {

/// One mistake in one file. Lines and columns count from 1; 0 means the file as a whole.
struct Problem {
  std::string file;
  int line = 0, column = 0;
  std::string key;  ///< dotted path, e.g. cluster.instance; may be empty
  std::string message;
  std::string hint;     ///< "did you mean …?" or "accepted: …"; may be empty
  std::string excerpt;  ///< the line itself; may be empty
};

/// Bad input by the user. what() holds every problem, in order; a hint is one line of it.
class InputError : public std::runtime_error {
 public:
  explicit InputError(std::vector<Problem> problems);
  explicit InputError(Problem problem) : InputError(std::vector<Problem>{std::move(problem)}) {}
  const std::vector<Problem>& problems() const { return problems_; }
  /// what(), for a terminal of so many columns: long lists of what is accepted go on below, further
  /// in. The lines that say where something is wrong, and what a file says there, stay whole.
  std::string text(int width) const;

 private:
  std::vector<Problem> problems_;
};

/// An error about no file in particular (a command line, a missing data directory).
InputError input_error(std::string message, std::string hint = {});

/// An error about a key, by whoever does not know in which file it is.
InputError key_error(std::string key, std::string message, std::string hint = {});

/// An error about a file as a whole.
InputError file_error(const std::filesystem::path& file, std::string message,
                      std::string hint = {});

/// The name in `known` that is nearest to `word` by edit distance, else the first that begins with
/// it, or "".
std::string nearest(const std::string& word, const std::vector<std::string>& known);
/// "did you mean 'x'?" and on the next line "accepted: a, b, c", for a word that is not in `known`.
std::string suggest(const std::string& word, const std::vector<std::string>& known);

}  // namespace foreduce
