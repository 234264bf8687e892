#include "real/endpoint_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace foreduce {
namespace {

std::optional<EndpointName> decode_name(std::string_view digits) {
  if (digits.empty() || digits.size() % 2 != 0 || digits.size() > 2 * kEndpointNameBytes)
    return std::nullopt;
  EndpointName name(digits.size() / 2);
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char* end = digits.data() + 2 * i + 2;
    const auto [stopped, failed] = std::from_chars(digits.data() + 2 * i, end, name[i], 16);
    if (failed != std::errc{} || stopped != end) return std::nullopt;
  }
  return name;
}

}  // namespace

std::string encode_endpoint_names(std::span<const EndpointName> names) {
  std::string address;
  for (const EndpointName& name : names) {
    if (!address.empty()) address += ',';
    for (const std::uint8_t byte : name) address += fmt::format("{:02x}", byte);
  }
  return address;
}

std::optional<std::vector<EndpointName>> decode_endpoint_names(std::string_view address) {
  std::vector<EndpointName> names;
  for (std::size_t at = 0; at <= address.size();) {
    const std::size_t end = std::min(address.find(',', at), address.size());
    auto name = decode_name(address.substr(at, end - at));
    if (!name) return std::nullopt;
    names.push_back(std::move(*name));
    at = end + 1;
  }
  return names;
}

}  // namespace foreduce
