// Memory that is not this process's own: a device a rank, whose copies and reduces run by themselves and are asked about later.
// Networks and ranks without a device reach it through this process's memory.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "algorithms/core/buffer.hpp"

namespace foreduce {

/// Where bytes of some rank are.
struct DeviceBytes {
  const std::byte* bytes = nullptr;
  int device = -1;              ///< number of the device whose memory it is; -1: this process's memory
  const void* ready = nullptr;  ///< the device's own mark of the moment from which they may be read; null: they may
};

/// One rank's share of a device. What is started here happens in the order of starting, on the device, while the rank goes on.
/// All may throw TransportError, naming the call, the rank and the device. For the rank's own thread, but for the constructor.
class RankDevice {
 public:
  RankDevice() = default;
  RankDevice(const RankDevice&) = delete;
  RankDevice& operator=(const RankDevice&) = delete;
  virtual ~RankDevice() = default;

  virtual int number() const = 0;  ///< of the device, in this process
  /// Memory on the device. What is let go serves the next who asks, and is given back with the device: peers may still be reading
  /// it when a rank gives up.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
  /// Memory of this process that the device copies from and to at its full rate; to be let go before the device is.
  virtual std::shared_ptr<std::byte> allocate_here(std::size_t bytes) = 0;
  /// Makes the like of memory that somebody else owns, until unpin(); whole pages are best. Copies from other memory may be slower
  /// and block.
  virtual void pin(std::byte* base, std::size_t bytes) = 0;
  /// Takes every pin() back. That memory may go then.
  virtual void unpin() = 0;
  /// Whether that address is in memory from allocate().
  virtual bool holds(const std::byte* data) const = 0;
  /// Starts a copy; either side may be in this process's memory, which must live until settle(). Later verbs see its result.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  /// Starts to fill with zeros, likewise.
  virtual void clear(std::byte* to, std::size_t bytes) = 0;
  /// Blocks until all copies and fills are done.
  virtual void settle() = 0;
  /// Whether they are.
  virtual bool settled() = 0;
  /// Whether see_network() can keep its promise; a network must not write into the device's memory else.
  virtual bool sees_network() const = 0;
  /// What a network has written into the device's memory, and said to be complete, is seen by all that is started from now on.
  virtual void see_network() = 0;

  // The verbs' share: none of these blocks, and each of the four that start something counts once in finished().
  /// What a peer is told about bytes that this rank sends.
  virtual DeviceBytes source(const std::byte* bytes) const = 0;
  /// Starts to copy from the device into memory from allocate_here().
  virtual void fetch(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  /// Starts to copy `from` into the elements, or to reduce it into them. It must stay as it is until that has finished.
  virtual void put(const Buffer& into, std::optional<Op> reduce, const DeviceBytes& from) = 0;
  /// Starts to copy `from` aside, as many elements as `into` has. Ends with put_aside().
  virtual std::byte* set_aside(const Buffer& into, const DeviceBytes& from) = 0;
  virtual void put_aside(const Buffer& into, std::optional<Op> reduce, std::byte* aside) = 0;
  /// Blocks until nothing that was started is under way any more, whether or not finished() was asked: for the end, when a rank has
  /// given up.
  virtual void drain() = 0;
  /// Whether the oldest thing started has finished; it is forgotten then, and the next is the oldest. There must be one.
  virtual bool finished() = 0;
};

}  // namespace foreduce
