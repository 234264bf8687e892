#include "real/host_addresses.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

namespace foreduce {

std::vector<std::string> host_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0)
    throw std::system_error(errno, std::generic_category(), "the addresses of this host");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, ::freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* i = all.get(); i; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || (i->ifa_flags & IFF_UP) == 0) continue;
    char text[INET_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr, text,
                sizeof text);
    if (std::find(addresses.begin(), addresses.end(), text) == addresses.end())
      addresses.emplace_back(text);
  }
  return addresses;
}

}  // namespace foreduce
