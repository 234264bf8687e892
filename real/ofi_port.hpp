// libfabric: reliable datagram endpoints with tags. EFA on EC2 (the installer's provider "efa"), "tcp" or "shm" elsewhere.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "real/port.hpp"

namespace foreduce {

/// What memory of devices is to the network.
enum class DeviceKind {
  none,   ///< out of reach: it goes through the process's
  cuda,   ///< FI_HMEM, where provider and library have it; else as none
  system  ///< ordinary memory, of which the provider is told nothing (for tests: the same messages without a GPU)
};

struct OfiOptions {
  std::string provider = "tcp";  ///< as fi_info -p takes it
  std::string address;           ///< of the host, to choose the interface; empty: the provider's first
  int rails = 1;                 ///< endpoints, on as many network interfaces as there are; pieces take turns
  /// Largest piece of a message, so that reducing hides behind receiving. 256 KiB was the fastest of 32 to 512 on loopback TCP.
  std::size_t piece_bytes = 256 * 1024;
  int turn = 0;  ///< which of a host's ranks this is: they take different interfaces first, where no address tells which
  DeviceKind devices = DeviceKind::none;
  bool register_always = false;  ///< registers memory also with providers that do without (for tests)
  int posted_pieces = 16;  ///< receives posted per rail, and as many at most of what comes without a head; more memory is taken
                           ///< when pieces cannot be used at once
};

/// Whether foreduce was built with libfabric. All below throw TransportError if not.
bool has_ofi();

/// Version of the library and of the provider it would use, e.g. "libfabric 1.17, tcp;ofi_rxm 117.0".
std::string ofi_version(const OfiOptions& options);

/// Names of the providers that have reliable datagrams here.
std::vector<std::string> ofi_providers();

/// A port, and a way to name it to others.
class OfiPort : public Port {
 public:
  /// Opaque; goes through the rendezvous.
  virtual std::string address() const = 0;
  /// Addresses of all ranks by rank (its own is not used; empty: reached in another way). Before the first send.
  virtual void connect(std::span<const std::string> addresses) = 0;
};

/// Opens the rails. Throws TransportError naming the provider and which there are.
std::unique_ptr<OfiPort> open_ofi(const OfiOptions& options);

/// What the module exports as "foreduce_ofi".
struct OfiModule {
  std::string (*version)(const OfiOptions&);
  std::vector<std::string> (*providers)();
  std::unique_ptr<OfiPort> (*open)(const OfiOptions&);
};

}  // namespace foreduce
