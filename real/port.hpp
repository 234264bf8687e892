// How bytes leave the process: one port a rank, behind which sits a network. A port moves pieces and knows nothing of verbs.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
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
};

/// A piece that has arrived, in the port's memory. Gives the memory back when it goes.
class Piece {
 public:
  Piece() = default;
  Piece(const PieceHead& head, const std::byte* data, std::function<void()> give_back)
      : head_(head), data_(data), give_back_(std::move(give_back)) {}
  Piece(Piece&& other) noexcept : head_(other.head_), data_(other.data_), give_back_(std::move(other.give_back_)) {
    other.give_back_ = nullptr;
  }
  Piece& operator=(Piece&&) = delete;
  ~Piece() {
    if (give_back_) give_back_();
  }
  const PieceHead& head() const { return head_; }
  const std::byte* data() const { return data_; }

 private:
  PieceHead head_;
  const std::byte* data_ = nullptr;
  std::function<void()> give_back_;
};

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
  /// attached again, and is then detached as often.
  virtual void attach(std::byte* base, std::size_t bytes) = 0;
  /// Before that memory goes: what comes to lie at its address is other memory. Nothing if it was not attached.
  virtual void detach(std::byte* base) = 0;
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
