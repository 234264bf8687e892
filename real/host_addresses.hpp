// Which addresses this host has.
#pragma once

#include <string>
#include <vector>

namespace foreduce {

/// The IPv4 addresses of the network interfaces that are up, each once: "127.0.0.1". Throws
/// std::system_error where the system does not tell.
std::vector<std::string> host_addresses();

}  // namespace foreduce
