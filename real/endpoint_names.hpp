// How a rank's address in the rendezvous holds the names of its libfabric endpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreduce {

/// A name as libfabric knows it.
using EndpointName = std::vector<std::uint8_t>;

/// At most so many bytes are in a name.
constexpr std::size_t kEndpointNameBytes = 256;

/// Hexadecimal digits, with a comma between two names.
std::string encode_endpoint_names(std::span<const EndpointName> names);
/// Reads such an address; nothing if it is none, or if a name is empty or too long.
std::optional<std::vector<EndpointName>> decode_endpoint_names(std::string_view address);

}  // namespace foreduce
