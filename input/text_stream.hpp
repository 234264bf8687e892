// Text to read words and lines from.
#pragma once

#include <sstream>
#include <string>

namespace foreduce {

/// A std::istringstream that throws where memory ends. A plain one swallows that in operator>> and
/// std::getline, and looks like the end of its text.
class TextStream : public std::istringstream {
 public:
  explicit TextStream(const std::string& text) : std::istringstream(text) {
    exceptions(std::ios::badbit);
  }
};

}  // namespace foreduce
