// Text of strangers, for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace foreduce {

/// Text of a file or of another process, fit for a terminal: control characters but the line feed
/// are escaped, and it ends after `most` bytes.
std::string printable(std::string_view text, std::size_t most = 4000);

}  // namespace foreduce
