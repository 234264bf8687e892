// One simulated rank: an actor that posts its schedule and sleeps until what it waits for has
// happened. A long schedule is posted as it runs: the actor also sleeps while many verbs are open.
#pragma once

#include <cstdint>
#include <memory>
#include <simgrid/s4u.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "algorithms/core/ledger.hpp"
#include "sim/message_log.hpp"

namespace foreduce {

class NetworkModel;
struct Connection;
struct Message;

/// Ends the ranks of a simulation that is to be done again. No error, so not a std::exception.
struct Abandoned {};

/// When a message came.
struct Arrival {
  double first_byte = 0;
  double readable = 0;  ///< from when a channel's threads read it: over NVLink its bytes as they
                        ///< come, from the network all at once
  bool between_nodes = false;
  Connection* connection = nullptr;
  MessageLog::Number message = 0;  ///< of the log, if there is one
};

/// The rank's backend; verbs that are ready go to the network.
class SimRank final : public LedgerBackend {
 public:
  /// Posts on only while at most so many of its verbs are open. Its verbs take their memory from
  /// `memory`.
  SimRank(NetworkModel& network, int rank, int slot, std::size_t most_open,
          std::pmr::memory_resource& memory)
      : LedgerBackend(rank, DoneVerbs::dropped, memory),
        network_(network),
        slot_(slot),
        most_open_(most_open) {}

  int slot() const { return slot_; }
  const Pending& pending(Event e) const { return at(e); }
  using LedgerBackend::prefetch, LedgerBackend::prefetch_dependents;
  /// From the engine's side: `e` happens now.
  void happen(Event e) {
    finish(e);
    wake();
  }
  void arrive(Event recv, Message& message);
  /// A message for it is ready whose receive it has not posted: it posts on until it has.
  void message_waiting() {
    ++unreceived_;
    wake();
  }
  void receive_posted() { --unreceived_; }
  /// Nothing can happen before it has posted the rest.
  void post_all();
  /// Its simulation is abandoned: it wakes up to end.
  void abandon() { wake(); }
  void set_actor(simgrid::s4u::ActorPtr actor) { actor_ = std::move(actor); }

 private:
  void send_ready(Event send) override;
  void recv_posted(Event recv) override;
  void may_write(Event recv) override;
  void write_arrived(Event recv, const std::byte* bytes, const Arrival& arrival);

  /// What an actor sleeps for.
  enum class Until : std::uint8_t { one_done, all_done, fewer_open };
  bool satisfied() const;
  void wake();
  void sleep();
  void do_wait(Event event) override {
    waiting_for_ = event;
    wait_until(Until::one_done);
  }
  void do_wait_all() override {
    drop_cells();  // the next rank that posts its schedule uses their memory again
    wait_until(Until::all_done);
  }
  void wait_until(Until until);
  double do_now() const override;

  // As in the ledger, and then the actor sleeps if many verbs are open.
  Event do_send(int to, std::uint64_t tag, Buffer data, Event after) override;
  Event do_recv(int from, std::uint64_t tag, Buffer into) override;
  Event do_recv_reduce(int from, std::uint64_t tag, Buffer into, Op op) override;
  void pause_if_many_open();

  NetworkModel& network_;
  int slot_;
  simgrid::s4u::ActorPtr actor_;
  bool asleep_ = false;
  Until until_ = Until::all_done;
  Event waiting_for_;
  std::size_t most_open_;  // when it pauses
  int unreceived_ = 0;     // messages that are ready, and whose receives are not posted
  bool behind_ = false;    // what it posts would have been posted earlier without a pause
  MessageLog::EventId woken_by_ = 0;
  std::unordered_map<std::uint32_t, std::pair<Arrival, std::unique_ptr<std::byte[]>>>
      early_;  // arrived early, and its bytes
};

}  // namespace foreduce
