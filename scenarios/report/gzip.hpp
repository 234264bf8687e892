// Compressed files.
#pragma once

#include <string>

namespace foreduce {

/// The text as a file of gzip (RFC 1952), without a time, so that equal texts give equal files.
std::string gzipped(const std::string& text);

}  // namespace foreduce
