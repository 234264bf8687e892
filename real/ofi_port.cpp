// The libfabric module: a port that spreads segments over several rails.
#include "real/ofi_port.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "real/endpoint_names.hpp"
#include "real/ofi_rail.hpp"

namespace foreduce::ofi {
namespace {

class RailsPort final : public OfiPort {
 public:
  explicit RailsPort(const OfiOptions& options) : options_(options) {
    if (options_.devices == DeviceKind::cuda)
      infos_ = query(options.provider, options.segment_bytes, DeviceKind::cuda);
    if (!infos_) {
      if (options_.devices == DeviceKind::cuda) options_.devices = DeviceKind::none;
      infos_ = query(options.provider, options.segment_bytes, DeviceKind::none);
    }
    const auto chosen =
        infos_ ? choose_interfaces(infos_.get(), options_) : std::vector<fi_info*>{};
    for (fi_info* info : chosen) rails_.push_back(std::make_unique<Rail>(info, options_));
    for (const auto& rail : rails_)
      if (rail->devices() == DeviceKind::none) options_.devices = DeviceKind::none;
  }

  /// Whether the provider has an interface here.
  bool usable() const { return !rails_.empty(); }

  std::string address() const override {
    std::vector<EndpointName> names;
    for (const auto& rail : rails_) names.push_back(rail->name());
    return encode_endpoint_names(names);
  }

  void connect(std::span<const std::string> addresses, const RunToken& token) override {
    for (auto& rail : rails_) rail->expect_ranks(addresses.size(), token);
    for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
      if (addresses[rank].empty()) continue;
      const auto names = decode_endpoint_names(addresses[rank]);
      if (!names || names->size() != rails_.size())
        throw TransportError(
            fmt::format("the address of rank {} has not {} endpoint names", rank, rails_.size()));
      for (std::size_t i = 0; i < rails_.size(); ++i) rails_[i]->connect(rank, (*names)[i]);
    }
  }

  std::uint64_t foreign_messages() const override {
    std::uint64_t all = 0;
    for (const auto& rail : rails_) all += rail->foreign_messages();
    return all;
  }

  bool attach(std::byte* base, std::size_t bytes) override {
    return attach(base, bytes, MemoryKind::host, [&](Rail& rail) {
      return rail.registers() ? rail.register_host(base, bytes) : nullptr;
    });
  }

  bool attach_device(std::byte* base, std::size_t bytes) override {
    if (options_.devices == DeviceKind::none) return false;
    return attach(base, bytes, MemoryKind::device,
                  [&](Rail& rail) { return rail.register_device(base, bytes); });
  }

  void detach(std::byte* base) override {
    for (auto& rail : rails_) rail->detach(base);
  }

  bool use_device(int device, AllocateOnDevice allocate) override {
    if (options_.devices == DeviceKind::none) return false;
    for (auto& rail : rails_) {
      if (rail->use_device(device, allocate)) continue;
      options_.devices = DeviceKind::none;
      for (auto& each : rails_) each->forget_device();  // all rails use the device, or none does
      return false;
    }
    return true;
  }

  bool sends_from(const std::byte* data, std::size_t bytes) const override {
    return std::all_of(rails_.begin(), rails_.end(),
                       [&](const auto& rail) { return rail->sends_from_device(data, bytes); });
  }

  void on_memory(std::function<void(std::byte*, std::size_t)> use) override {
    for (auto& rail : rails_) rail->on_memory(use);
  }

  void send(int to, const SegmentHeader& header, Event send, const std::byte* data) override {
    const bool from_device = header.bytes > 0 && rails_[0]->sends_from_device(data, header.bytes);
    // Host memory in a device's place goes over providers (rxm) that need a round trip for larger
    // segments.
    const std::size_t most = from_device && options_.devices == DeviceKind::cuda
                                 ? kDeviceSegmentBytes
                                 : options_.segment_bytes;
    const std::size_t segments = std::max<std::size_t>(1, (header.bytes + most - 1) / most);
    OutgoingMessage* message = messages_.add(send, from_device ? 2 * segments : segments);
    for (std::size_t i = 0; i < segments; ++i) {
      Rail& rail = *rails_[next_rail_++ % rails_.size()];
      const std::size_t first = i * most;
      SegmentHeader one = header;
      one.offset = header.offset + first;
      one.bytes = std::min(most, header.bytes - first);
      if (from_device) {
        one.data_number = rail.next_data_number();
        one.alignment_offset = static_cast<std::uint32_t>(
            reinterpret_cast<std::uintptr_t>(data + first) % SegmentHeader::kAlignment);
        rail.start(to, one, data + first, message, Part::header_only);
        rail.start(to, one, data + first, message, Part::data_only);
      } else {
        rail.start(to, one, data + first, message, Part::header_with_data);
      }
    }
  }

  bool progress(PortUser& user) override {
    bool any = false;
    for (auto& rail : rails_) {
      any |= rail->complete(user, messages_);
      any |= rail->send_backlog();
    }
    return any;
  }

  int may_sleep(std::vector<pollfd>& wait_for) override {
    int shortest = -1;
    for (auto& rail : rails_) {
      const int ms = rail->may_sleep(wait_for);
      if (ms == 0) return 0;
      if (ms > 0 && (shortest < 0 || ms < shortest)) shortest = ms;
    }
    return shortest;
  }

 private:
  /// Registers the memory on all rails or on none.
  template <class Register>
  bool attach(std::byte* base, std::size_t bytes, MemoryKind kind, Register register_on) {
    std::vector<Owned<fid_mr>> fresh(rails_.size());
    for (std::size_t i = 0; i < rails_.size(); ++i) {
      if (rails_[i]->has_attached(base, bytes)) continue;
      fresh[i] = register_on(*rails_[i]);
      if (!fresh[i]) return false;
    }
    for (std::size_t i = 0; i < rails_.size(); ++i)
      rails_[i]->attach(base, bytes, std::move(fresh[i]), kind);
    return true;
  }

  OfiOptions options_;
  Info infos_;
  std::vector<std::unique_ptr<Rail>> rails_;
  OutgoingMessages messages_;
  std::size_t next_rail_ = 0;
};

std::string version(const OfiOptions& options) {
  const std::uint32_t version = fi_version();
  const Info info = query(options.provider, options.segment_bytes, DeviceKind::none);
  return fmt::format("libfabric {}.{}{}", FI_MAJOR(version), FI_MINOR(version),
                     info ? fmt::format(", {} {}.{}", info->fabric_attr->prov_name,
                                        FI_MAJOR(info->fabric_attr->prov_version),
                                        FI_MINOR(info->fabric_attr->prov_version))
                          : "");
}

std::unique_ptr<OfiPort> open(const OfiOptions& options) {
  auto port = std::make_unique<RailsPort>(options);
  if (!port->usable()) return nullptr;
  return port;
}

}  // namespace
}  // namespace foreduce::ofi

extern "C" const foreduce::OfiModule foreduce_ofi{foreduce::ofi::version, foreduce::ofi::providers,
                                                  foreduce::ofi::open};
