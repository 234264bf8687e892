// Memory that is not in the process: one device for each rank, whose copies and reduces run
// asynchronously. Networks and ranks without a device reach it through host memory, or by
// GPUDirect.
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
  int device = -1;  ///< number of the device whose memory holds them; -1: host memory
  const void* ready =
      nullptr;  ///< the device's event after which they may be read; null: they may be read now
};

/// One rank's use of a device. Operations run on the device in the order in which they were
/// started, while the rank goes on. All of them may throw TransportError, which names the call, the
/// rank and the device. While ranks run, only the rank's own thread calls them; before and after
/// that the thread that made it may.
class RankDevice {
 public:
  RankDevice() = default;
  RankDevice(const RankDevice&) = delete;
  RankDevice& operator=(const RankDevice&) = delete;
  virtual ~RankDevice() = default;

  virtual int number() const = 0;  ///< of the device, in this process
  /// Memory on the device. Released memory is reused by later calls and freed only together with
  /// the device, because peers may still read it when a rank fails.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
  /// The same, for memory that the rank can do without. Throws TransportError also where less than
  /// as much again would stay free, because verbs need temporary memory.
  virtual std::shared_ptr<std::byte> allocate_with_reserve(std::size_t bytes) = 0;
  /// Pinned host memory, which the device copies from and to at its full rate. It must be released
  /// before the device.
  virtual std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes) = 0;
  /// Pins host memory that somebody else owns, until unpin(); whole pages are best. Copies from
  /// other host memory may be slower and block.
  virtual void pin(std::byte* base, std::size_t bytes) = 0;
  /// Takes every pin() back; that memory may be freed afterwards.
  virtual void unpin() = 0;
  /// Whether that address is in memory from allocate().
  virtual bool holds(const std::byte* data) const = 0;
  /// Starts a copy. Either side may be in host memory, which must live until wait_for_copies().
  /// Later verbs see its result.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  /// Starts to fill with zeros, likewise.
  virtual void clear(std::byte* to, std::size_t bytes) = 0;
  /// Blocks until all copy() and clear() calls have completed.
  virtual void wait_for_copies() = 0;
  /// Whether all copy() and clear() calls have completed.
  virtual bool copies_done() = 0;
  /// Whether sync_network_writes() works here. If not, a network must not write into the device's
  /// memory.
  virtual bool can_sync_network_writes() const = 0;
  /// Makes completed writes of the network into the device's memory visible to everything that is
  /// started from now on.
  virtual void sync_network_writes() = 0;

  // What verbs need. None of these blocks, and each of the four that start something counts once in
  // finished().
  /// What a peer gets to know about bytes that this rank sends.
  virtual DeviceBytes source(const std::byte* bytes) const = 0;
  /// Starts to copy from the device into memory from allocate_pinned().
  virtual void fetch(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  /// Starts to copy `from` into the elements, or to reduce it into them. `from` must not change
  /// until that has finished.
  virtual void put(const Buffer& into, std::optional<Op> reduce, const DeviceBytes& from) = 0;
  /// Starts to copy `from` into temporary memory, as many elements as `into` has. put_aside() must
  /// follow.
  virtual std::byte* set_aside(const Buffer& into, const DeviceBytes& from) = 0;
  virtual void put_aside(const Buffer& into, std::optional<Op> reduce, std::byte* aside) = 0;
  /// Blocks until everything that was started has ended, without counting in finished(). For the
  /// end, when a rank has failed.
  virtual void drain() = 0;
  /// Whether the oldest operation has finished. If so, it is forgotten, and the next one is the
  /// oldest. There must be one.
  virtual bool finished() = 0;
};

}  // namespace foreduce
