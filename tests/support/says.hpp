// Whether a text says something: an error message, a report, a log.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <string_view>

namespace foreduce::test {

inline testing::AssertionResult says(const char* text_source, const char*, std::string_view text,
                                     std::string_view part) {
  if (text.find(part) != std::string_view::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "\"" << part << "\" is not in " << text_source << ", which is:\n"
         << text;
}

inline testing::AssertionResult says_not(const char* text_source, const char*,
                                         std::string_view text, std::string_view part) {
  if (text.find(part) == std::string_view::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "\"" << part << "\" is in " << text_source << ", which is:\n"
         << text;
}

/// A text as one line: every run of spaces and line ends is one space.
inline std::string words(std::string_view text) {
  std::string line;
  for (const char c : text)
    if (!std::isspace(static_cast<unsigned char>(c))) line += c;
    else if (!line.empty() && line.back() != ' ') line += ' ';
  return line;
}

}  // namespace foreduce::test

/// Expects that `text` contains `part`. A failure prints all of the text.
#define EXPECT_SAYS(text, part) EXPECT_PRED_FORMAT2(::foreduce::test::says, text, part)
/// Expects that `text` does not contain `part`.
#define EXPECT_SAYS_NOT(text, part) EXPECT_PRED_FORMAT2(::foreduce::test::says_not, text, part)
