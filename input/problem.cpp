#include "input/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <numeric>
#include <utility>

#include "input/printable.hpp"
#include "input/text_stream.hpp"

namespace foreduce {
namespace {

constexpr std::size_t kNoWidth = std::numeric_limits<std::size_t>::max();

/// Letters, not bytes: "…" is one.
std::size_t letters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

/// The lines of a hint, each two spaces in, and four where it goes on.
std::string hint_lines(const std::string& hint, std::size_t width) {
  std::string out;
  TextStream lines(hint);
  for (std::string line; std::getline(lines, line);) {
    const auto first = std::min(line.size(), line.find_first_not_of(' '));
    std::string row = "\n ";
    TextStream words(line.substr(first));
    for (std::string word; std::getline(words, word, ' ');) {
      if (letters(row) + letters(word) > width && row.size() > 5) {
        out += row;
        row = "\n   ";
      }
      row += " " + word;
    }
    out += row;
  }
  return out;
}

std::string render(const std::vector<Problem>& problems, std::size_t width = kNoWidth) {
  std::string text;
  for (const Problem& p : problems) {
    if (!text.empty()) text += '\n';
    if (!p.file.empty())
      text += p.line > 0 ? fmt::format("{}:{}:{}: ", p.file, p.line, p.column) : p.file + ": ";
    text += "error: ";
    if (!p.key.empty()) text += p.key + ": ";
    const auto first = std::min(p.message.find('\n'), p.message.size());
    text += p.message.substr(0, first);
    if (first < p.message.size()) text += hint_lines(p.message.substr(first + 1), width);
    if (!p.excerpt.empty() && p.excerpt.size() <= 200) {
      const std::string number = std::to_string(p.line);
      text += fmt::format("\n  {} | {}\n  {:{}} | {:{}}^", number, p.excerpt, "", number.size(), "",
                          p.column - 1);
    }
    if (!p.hint.empty()) text += hint_lines(p.hint, width);
  }
  return printable(text, text.size());  // a file's words may hold escape sequences
}

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1), before, previous;
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(previous, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

InputError::InputError(std::vector<Problem> problems)
    : std::runtime_error(render(problems)), problems_(std::move(problems)) {}

std::string InputError::text(int width) const {
  return render(problems_, static_cast<std::size_t>(std::max(20, width)));
}

InputError input_error(std::string message, std::string hint) {
  return key_error("", std::move(message), std::move(hint));
}

InputError key_error(std::string key, std::string message, std::string hint) {
  Problem problem;
  problem.key = std::move(key);
  problem.message = std::move(message);
  problem.hint = std::move(hint);
  return InputError(std::move(problem));
}

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  if (word.size() > 100) return {};
  const auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
  };
  // EC2's types of another letter are other things: trn1.32xlarge is no c6in.32xlarge.
  const bool ec2_type = word.ends_with("xlarge") || word.ends_with(".metal");
  std::string best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& k : known)
    if (const auto d = edit_distance(lower(word), lower(k));
        d < least && (!ec2_type || lower(word).front() == lower(k).front())) {
      least = d;
      best = k;
    }
  // p6e-gb200.36xlarge is a part of u-p6e-gb200x36, as EC2 names its UltraServers.
  if (const auto dot = word.find('.'); dot != std::string::npos)
    for (const std::string& k : known)
      if (k.starts_with("u-" + word.substr(0, dot) + "x")) return k;
  // The beginning of a name is meant for the first that goes on from there.
  const auto longer = std::find_if(known.begin(), known.end(), [&](const std::string& k) {
    return word.size() > 1 && k.starts_with(word);
  });
  return best.empty() && longer != known.end() ? *longer : best;
}

std::string suggest(const std::string& word, const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  const std::string accepted = fmt::format("accepted: {}", fmt::join(known, ", "));
  return near.empty() ? accepted : fmt::format("did you mean '{}'?\n  {}", near, accepted);
}

InputError file_error(const std::filesystem::path& file, std::string message, std::string hint) {
  Problem problem;
  problem.file = file.string();
  problem.message = std::move(message);
  problem.hint = std::move(hint);
  return InputError(std::move(problem));
}

}  // namespace foreduce
