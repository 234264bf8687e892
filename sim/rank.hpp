// One simulated rank: an actor that posts its schedule and sleeps until what it waits for has
// happened.
#pragma once

#include <simgrid/s4u.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "algorithms/core/ledger.hpp"
#include "sim/message_log.hpp"

namespace foreduce {

class NetworkModel;
struct Message;

/// When a message came.
struct Arrival {
  double first_byte = 0;
  double readable = 0;  ///< from when a channel's threads read it: over NVLink its bytes as they
                        ///< come, from the network all at once
  MessageLog::Number message = 0;  ///< of the log, if there is one
};

/// The rank's backend; verbs that are ready go to the network.
class SimRank final : public LedgerBackend {
 public:
  SimRank(NetworkModel& network, int rank, int slot)
      : LedgerBackend(rank), network_(network), slot_(slot) {}

  int slot() const { return slot_; }
  const Pending& pending(Event e) const { return at(e); }
  /// From the engine's side: `e` happens now.
  void happen(Event e) {
    finish(e);
    wake();
  }
  void arrive(Event recv, const Message& message);
  void set_actor(simgrid::s4u::ActorPtr actor) { actor_ = std::move(actor); }

 private:
  void send_ready(Event send) override;
  void recv_posted(Event recv) override;
  void may_write(Event recv) override;
  void settle(Event recv, const std::byte* bytes, const Arrival& arrival);

  bool satisfied() const { return waiting_for_all_ ? all_done() : done(waiting_for_); }
  void wake();
  void sleep();
  void do_wait(Event event) override {
    waiting_for_all_ = false;
    waiting_for_ = event;
    sleep();
  }
  void do_wait_all() override {
    waiting_for_all_ = true;
    sleep();
  }
  double do_now() const override;

  NetworkModel& network_;
  int slot_;
  simgrid::s4u::ActorPtr actor_;
  bool asleep_ = false, waiting_for_all_ = false;
  MessageLog::Moment woken_by_ = 0;
  Event waiting_for_;
  std::unordered_map<std::uint32_t, std::pair<Arrival, std::vector<std::byte>>>
      early_;  // arrived early, and its bytes
};

}  // namespace foreduce
