// Inside the libfabric module: one endpoint on one network interface, with its memory and what is
// under way on it. ofi_endpoint.cpp opens endpoints, ofi_memory.cpp manages memory,
// ofi_transfer.cpp moves segments; ofi_port.cpp is the port.
#pragma once

#include <cstdint>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "real/endpoint_names.hpp"
#include "real/ofi_port.hpp"

namespace foreduce::ofi {

/// The tag of every message that begins with a header.
constexpr std::uint64_t kHeaderTag = 0xF07ED0CE;
/// Largest segment that comes from a device. It is larger than others, since no copy of the host
/// overlaps with it and every segment takes two messages.
constexpr std::size_t kDeviceSegmentBytes = 1024 * 1024;

/// How many segments from devices may be announced before their data comes: 1 TiB.
constexpr std::size_t kAnnouncedAtMost = 1024 * 1024;

/// The tag of a message that holds only data from a device: the sender's rank and the message's
/// number, hidden by the run's token, since nothing else in the message says that it is of the run.
inline std::uint64_t data_tag(const SegmentHeader& header) {
  return std::uint64_t{1} << 63 |
         ((std::uint64_t{header.from} << 32 | header.data_number) ^ header.token.low);
}

struct Close {
  template <class Fid>
  void operator()(Fid* fid) const {
    fi_close(&fid->fid);
  }
};
template <class Fid>
using Owned = std::unique_ptr<Fid, Close>;
struct FreeInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

[[noreturn]] void fail(const std::string& what, long code);
/// Throws TransportError if `code` is an error.
void check(long code, const std::string& what);

/// Every reliable datagram endpoint that the provider offers here; with FI_HMEM for
/// DeviceKind::cuda. Null if there is none.
Info query(const std::string& provider, std::size_t segment_bytes, DeviceKind devices);
/// One network interface for each rail. The one with options.address is first, and interfaces
/// repeat if there are too few.
std::vector<fi_info*> choose_interfaces(fi_info* all, const OfiOptions& options);
/// Names of the providers with reliable datagrams.
std::vector<std::string> providers();

/// An operation under way. libfabric returns its address when it is done; providers use the space
/// at its beginning.
struct Operation {
  fi_context2 provider_space{};
  enum class Kind : std::uint8_t { receive, bounce, send } kind = Kind::receive;
};
/// Host memory for one arriving segment with its header.
struct Slot : Operation {
  std::byte* memory = nullptr;
  fid_mr* region = nullptr;
};
/// Memory for data that arrives from a device, without its header. It is on this rank's device if
/// libfabric can reach that.
struct BounceBuffer : Operation {
  BounceBuffer() { kind = Kind::bounce; }
  SegmentHeader header;
  std::byte* memory = nullptr;
  fid_mr* region = nullptr;
  int device = -1;
};
/// A message that is being sent.
struct OutgoingMessage {
  Event send{};
  std::size_t parts_left = 0;
};
/// What one libfabric message holds. Data from a device travels apart from its header.
enum class Part : std::uint8_t { header_with_data, header_only, data_only };
/// One segment that is being sent, or a part of it.
struct OutgoingSegment : Operation {
  SegmentHeader header;
  Part part = Part::header_with_data;
  const std::byte* data = nullptr;
  fid_mr* region = nullptr;  // of data
  Slot* copied =
      nullptr;  // header and data, if the provider wants registered memory and data is not
  fid_mr* own_region = nullptr;  // of this object
  OutgoingMessage* message = nullptr;
  int to = 0;
};

/// Messages that are being sent. Their segments may be spread over several rails.
class OutgoingMessages {
 public:
  OutgoingMessage* add(Event send, std::size_t parts);
  /// Counts one part of the message as sent, and reports the message if that was the last one.
  void part_sent(OutgoingMessage* message, PortUser& user);

 private:
  std::deque<OutgoingMessage> all_;
  std::vector<OutgoingMessage*> free_;
};

enum class MemoryKind : std::uint8_t { host, device };

/// An endpoint on one interface with its memory.
class Rail {
 public:
  // ---- ofi_endpoint.cpp
  /// Opens the endpoint and posts its receives.
  Rail(fi_info* info, const OfiOptions& options);
  /// This endpoint's address.
  EndpointName name() const;
  /// Makes room for so many ranks, whose segments have that token. Those that are not connected
  /// cannot be sent to.
  void expect_ranks(std::size_t ranks, const RunToken& token);
  void connect(std::size_t rank, const EndpointName& name);
  /// What the endpoint can do with device memory.
  DeviceKind devices() const { return devices_; }
  /// As Port::may_sleep.
  int may_sleep(std::vector<pollfd>& wait_for);

  // ---- ofi_memory.cpp
  /// Whether the provider wants host memory to be registered before it is sent from.
  bool registers() const { return registers_; }
  Owned<fid_mr> register_host(const void* base, std::size_t bytes);
  /// Null if the memory cannot be registered: libfabric lacks CUDA, the driver lacks GPUDirect
  /// RDMA, or address space ran out.
  Owned<fid_mr> register_device(std::byte* base, std::size_t bytes);
  /// Whether `bytes` from `base` on are attached already.
  bool has_attached(std::byte* base, std::size_t bytes) const;
  /// Counts one more use of that memory. `region` replaces the registration, unless it is null.
  void attach(std::byte* base, std::size_t bytes, Owned<fid_mr> region, MemoryKind kind);
  void detach(std::byte* base);
  /// Whether these bytes are in attached memory of a device.
  bool sends_from_device(const std::byte* data, std::size_t bytes) const;
  /// Lets data from other devices arrive in this device's memory. False if that memory is full or
  /// libfabric cannot reach it.
  bool use_device(int device, AllocateOnDevice allocate);
  /// Takes use_device() back, before anything has arrived.
  void forget_device();
  void on_memory(const std::function<void(std::byte*, std::size_t)>& use);

  // ---- ofi_transfer.cpp
  std::uint32_t next_data_number();
  /// Sends the segment, or queues it if the provider is full.
  void start(int to, const SegmentHeader& header, const std::byte* data, OutgoingMessage* message,
             Part part);
  /// Handles operations that are done. Returns whether there were any.
  bool complete(PortUser& user, OutgoingMessages& messages);
  /// Messages that were dropped because they are not from this run.
  std::uint64_t foreign_messages() const { return foreign_messages_; }
  /// Sends what is queued. Returns whether anything was sent.
  bool send_backlog();

 private:
  struct Free {
    void operator()(std::byte* block) const { std::free(block); }
  };
  using HostBlock = std::unique_ptr<std::byte, Free>;  // whole pages, since a device may pin them
  static HostBlock new_block(std::size_t bytes);
  struct Region {  // memory that the port's user has attached
    std::size_t bytes = 0;
    Owned<fid_mr> region;
    int uses = 0;
    MemoryKind kind = MemoryKind::host;
  };

  void open_completions();
  void open_endpoint();
  fid_mr* register_own(const void* base, std::size_t bytes);
  const Region* region_of(const std::byte* data, std::size_t bytes) const;
  std::size_t slot_bytes() const { return sizeof(SegmentHeader) + segment_bytes_; }
  std::size_t slot_block_bytes() const;
  Slot* new_slot();
  OutgoingSegment* new_outgoing();
  BounceBuffer* new_bounce_buffer();
  void add_bounce_buffers(std::byte* block, fid_mr* region, int device);
  bool add_bounce_buffers_on_device();
  void add_bounce_buffers_on_host();

  void receive(std::byte* into, std::size_t bytes, fid_mr* region, std::uint64_t tag,
               Operation& operation);
  void post_receive();
  void post_bounce_receives();
  bool try_send(OutgoingSegment& segment);
  void finish_send(OutgoingSegment* segment, PortUser& user, OutgoingMessages& messages);
  void finish_bounce(BounceBuffer* buffer, std::size_t bytes, PortUser& user);
  bool finish_receive(Slot* slot, std::size_t bytes, PortUser& user);
  void drop(Slot* slot);
  void handle_error();

  fi_info* info_;
  std::size_t segment_bytes_;
  int posted_receives_;
  DeviceKind devices_;
  bool registers_;
  Owned<fid_fabric> fabric_;
  Owned<fid_domain> domain_;
  Owned<fid_av> addresses_;
  Owned<fid_cq> completions_;
  int fd_ = -1;  // of the completion queue; -1: it must be polled
  std::vector<fi_addr_t> peers_;
  RunToken token_;
  std::uint64_t foreign_messages_ = 0;

  int device_ = -1;  // where bounce buffers are; -1: in host memory
  AllocateOnDevice allocate_;
  std::function<void(std::byte*, std::size_t)> on_memory_;
  std::vector<std::shared_ptr<std::byte>> bounce_memory_on_device_;
  std::vector<HostBlock> slot_memory_, bounce_memory_;
  std::deque<Slot> slots_;
  std::vector<Slot*> free_slots_;
  std::deque<BounceBuffer> bounce_buffers_;
  std::vector<BounceBuffer*> free_bounce_buffers_;
  std::deque<std::vector<OutgoingSegment>> outgoing_blocks_;
  std::vector<OutgoingSegment*> free_outgoing_;
  std::uint64_t next_key_ = 0;
  std::vector<Owned<fid_mr>> regions_;  // also replaced ones, which sends may still use
  std::map<const std::byte*, Region> attached_;

  std::deque<SegmentHeader>
      announced_;            // data that comes without a header, and has no receive posted yet
  int bounce_receives_ = 0;  // posted and not complete
  std::uint32_t data_number_ = 0;  // of the last message that held only data
  std::size_t sends_posted_ = 0;   // and not complete
  /// Segments by receiving rank, which wait because the provider was full or the peer is not
  /// connected yet. The queue of one rank does not delay the others.
  std::map<int, std::deque<OutgoingSegment*>> backlog_;
  Owned<fid_ep> endpoint_;  // last, so that it is closed first
};

}  // namespace foreduce::ofi
