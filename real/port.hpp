// How bytes leave the process: each rank has one port to the network. A port moves segments, and
// its rank handles verbs.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/core/transport.hpp"
#include "real/segment_header.hpp"

namespace foreduce {

/// A segment that has arrived, in memory that the port lends. The destructor gives the memory back.
class Segment {
 public:
  Segment() = default;
  Segment(const SegmentHeader& header, const std::byte* data, std::function<void()> give_back,
          int device = -1)
      : header_(header), data_(data), give_back_(std::move(give_back)), device_(device) {}
  Segment(Segment&& other) noexcept
      : header_(other.header_),
        data_(other.data_),
        give_back_(std::move(other.give_back_)),
        device_(other.device_) {
    other.give_back_ = nullptr;
  }
  Segment& operator=(Segment&&) = delete;
  ~Segment() {
    if (give_back_) give_back_();
  }
  const SegmentHeader& header() const { return header_; }
  const std::byte* data() const { return data_; }
  /// The number of the device whose memory holds the data; -1: host memory.
  int device() const { return device_; }

 private:
  SegmentHeader header_;
  const std::byte* data_ = nullptr;
  std::function<void()> give_back_;
  int device_ = -1;
};

/// Allocates memory on a device; the memory lives as long as the result.
using AllocateOnDevice = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;

/// What a port reports to its rank, from within progress() only.
class PortUser {
 public:
  virtual ~PortUser() = default;
  virtual void sent(Event send) = 0;  ///< once for every Port::send: its bytes may be overwritten
  virtual void arrived(Segment&& segment) = 0;
};

class Port {
 public:
  virtual ~Port() = default;
  Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  /// Registers memory that will be sent from, if the network asks for that; other memory is copied
  /// before it is sent. The same memory may be attached several times and is then detached as
  /// often. Returns false if it was not attached.
  virtual bool attach(std::byte* base, std::size_t bytes) = 0;
  /// Must be called before attached memory is freed, since other memory may later get its address.
  /// Ignores unknown memory.
  virtual void detach(std::byte* base) = 0;
  /// Turns on GPUDirect: bytes from other ranks' devices arrive in this device's memory, and
  /// attach_device() makes memory there sendable. Returns false if provider or library cannot; such
  /// bytes then arrive in host memory.
  virtual bool use_device(int device, AllocateOnDevice allocate) = 0;
  /// attach() for memory of that device. Returns false also if it cannot be registered.
  virtual bool attach_device(std::byte* base, std::size_t bytes) = 0;
  /// Whether these are bytes on the device that send() takes without a copy through the host.
  virtual bool sends_from(const std::byte* data, std::size_t bytes) const = 0;
  /// Calls `use` with all host memory that segments arrive in, now and whenever memory is added. A
  /// device may pin it.
  virtual void on_memory(std::function<void(std::byte* base, std::size_t bytes)> use) = 0;
  /// Starts to send header.bytes bytes of a message, from header.offset on. PortUser::sent reports
  /// the end. Never blocks.
  virtual void send(int to, const SegmentHeader& header, Event send, const std::byte* data) = 0;
  /// Moves whatever can be moved. Returns true if anything happened. Throws TransportError.
  virtual bool progress(PortUser& user) = 0;
  /// Adds the descriptors to poll before sleeping. Returns how many milliseconds the rank may
  /// sleep: -1 means without limit, and 0 that something may be there already or that the provider
  /// has no descriptor.
  virtual int may_sleep(std::vector<pollfd>& wait_for) = 0;
};

}  // namespace foreduce
