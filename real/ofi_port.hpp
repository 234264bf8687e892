// A port over libfabric: reliable datagram endpoints with tags. The provider is "efa" on EC2, and
// "tcp" or "shm" elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "real/port.hpp"

namespace foreduce {

/// What the network can do with device memory.
enum class DeviceKind : std::uint8_t {
  none,   ///< nothing: its bytes go through host memory
  cuda,   ///< FI_HMEM, if provider and library have it; otherwise as none
  system  ///< host memory in a device's place, of which the provider knows nothing (tests: the same
          ///< messages without a GPU)
};

struct OfiOptions {
  std::string provider = "tcp";  ///< as fi_info -p takes it
  std::string address;  ///< of the host, to choose the interface; empty: the provider's first
  int rails = 1;  ///< endpoints, on as many network interfaces as there are; segments take turns
  /// Largest segment of a message, so that reducing overlaps with receiving. 256 KiB was the
  /// fastest of 32 to 512 on loopback TCP.
  std::size_t segment_bytes = 256 * 1024;
  /// Which interface to begin with if none has an IP address. The ranks of a host begin with
  /// different ones.
  int first_interface = 0;
  DeviceKind devices = DeviceKind::none;
  bool register_always =
      false;  ///< registers memory also for providers that do not need it (for tests)
  /// Receives posted per rail for headers, and at most as many for data without a header. More
  /// memory is allocated when segments cannot be used at once.
  int posted_receives = 16;
};

/// Whether foreduce was built with libfabric. If not, all functions below throw TransportError.
bool has_ofi();

/// Version of the library and of the provider it would use, e.g. "libfabric 1.17, tcp;ofi_rxm
/// 117.0".
std::string ofi_version(const OfiOptions& options);

/// Names of the providers that have reliable datagrams here.
std::vector<std::string> ofi_providers();

/// A port with an address that other processes can connect to.
class OfiPort : public Port {
 public:
  /// Opaque; the rendezvous passes it on.
  virtual std::string address() const = 0;
  /// Must be called before the first send, with the addresses of all ranks by rank. An empty
  /// address means that this port never sends to that rank. Messages without `token` are dropped,
  /// which the first of them in this process reports on stderr.
  virtual void connect(std::span<const std::string> addresses, const RunToken& token) = 0;
  /// How many messages were dropped because they are not from this run.
  virtual std::uint64_t foreign_messages() const = 0;
};

/// Opens the rails. Throws InputError, which names those that exist, where there is no such
/// provider, and TransportError where it fails.
std::unique_ptr<OfiPort> open_ofi(const OfiOptions& options);

/// What the module exports as "foreduce_ofi".
struct OfiModule {
  std::string (*version)(const OfiOptions&);
  std::vector<std::string> (*providers)();
  std::unique_ptr<OfiPort> (*open)(const OfiOptions&);  ///< null: there is no such provider here
};

}  // namespace foreduce
