// How bytes leave the process: one port a rank, behind which sits a network. A port moves pieces and knows nothing of verbs.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/core/transport.hpp"

namespace foreduce {

/// Travels in front of every piece; same byte order on all hosts (checked by the rendezvous).
struct PieceHead {
  std::uint32_t from = 0;   ///< rank
  std::uint32_t round = 0;  ///< how many all-reduces this rank had finished
  std::uint64_t tag = 0;
  std::uint64_t total = 0;   ///< bytes of the whole message
  std::uint64_t offset = 0;  ///< of this piece within it
  std::uint64_t bytes = 0;   ///< of this piece
  std::uint32_t apart = 0;   ///< not 0: the bytes come from a device, in a message of their own with this number
  std::uint32_t lead = 0;    ///< and lie so far beyond a multiple of kLead there, as they shall here: reduces take 16 bytes at a time
  static constexpr std::size_t kLead = 16;
};

/// A piece that has arrived, in memory that the port lends. Gives the memory back when it goes.
class Piece {
 public:
  Piece() = default;
  Piece(const PieceHead& head, const std::byte* data, std::function<void()> give_back, int device = -1)
      : head_(head), data_(data), give_back_(std::move(give_back)), device_(device) {}
  Piece(Piece&& other) noexcept
      : head_(other.head_), data_(other.data_), give_back_(std::move(other.give_back_)), device_(other.device_) {
    other.give_back_ = nullptr;
  }
  Piece& operator=(Piece&&) = delete;
  ~Piece() {
    if (give_back_) give_back_();
  }
  const PieceHead& head() const { return head_; }
  const std::byte* data() const { return data_; }
  int device() const { return device_; }  ///< number of the device whose memory it is in; -1: this process's

 private:
  PieceHead head_;
  const std::byte* data_ = nullptr;
  std::function<void()> give_back_;
  int device_ = -1;
};

/// Memory on a device, which lives as long as what it returns.
using AllocateOnDevice = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;

/// What a port tells its rank, from within progress() only.
class PortUser {
 public:
  virtual ~PortUser() = default;
  virtual void sent(Event send) = 0;  ///< once for every Port::send: its bytes may be overwritten
  virtual void arrived(Piece&& piece) = 0;
};

class Port {
 public:
  virtual ~Port() = default;
  Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  /// Memory that will be sent from; registered with the network where it asks for that. The rest is copied. The same memory may be
  /// attached again, and is then detached as often. False: it is not, and need not be detached.
  virtual bool attach(std::byte* base, std::size_t bytes) = 0;
  /// Before that memory goes: what comes to lie at its address is other memory. Nothing if it was not attached.
  virtual void detach(std::byte* base) = 0;
  /// What others send from their devices shall land in this one's memory, and what is attached with attach_device() leave from
  /// there, past this process's. False: provider or library cannot; such bytes land in this process's memory then.
  virtual bool use_device(int device, AllocateOnDevice allocate) = 0;
  /// attach() for memory of that device; false also where it cannot be registered.
  virtual bool attach_device(std::byte* base, std::size_t bytes) = 0;
  /// Whether these are bytes on the device that send() takes as they are.
  virtual bool sends_from(const std::byte* data, std::size_t bytes) const = 0;
  /// `use` is called with memory that pieces arrive in: now with what there is, later with what is added. For a device that copies
  /// from it.
  virtual void on_memory(std::function<void(std::byte* base, std::size_t bytes)> use) = 0;
  /// Starts sending head.bytes from head.offset on of a message; PortUser::sent says when they are. Never blocks.
  virtual void send(int to, const PieceHead& head, Event send, const std::byte* data) = 0;
  /// Moves whatever can be moved. True if anything happened. Throws TransportError.
  virtual bool progress(PortUser& user) = 0;
  /// Adds what to poll for before sleeping. Milliseconds that one may sleep: 0 if something may be there already or the provider
  /// cannot be slept on, -1 for ever.
  virtual int may_sleep(std::vector<pollfd>& wait_for) = 0;
};

}  // namespace foreduce
