// The ranks of one process, a thread each: peers in the process hand over pointers, peers elsewhere are reached through a port. A
// rank with a device has that do the work where its data lies there.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "algorithms/core/ledger.hpp"
#include "real/rank_device.hpp"
#include "real/port.hpp"

namespace foreduce {

class HostRank;

/// What the ranks of one process share.
struct HostRanks {
  /// Slots by rank of the whole world; null for ranks of other processes.
  std::vector<std::unique_ptr<HostRank>> ranks;
  /// A rank without progress for so long says what it waits for, and the world breaks up.
  double timeout_s = 30;
  /// How long an idle rank looks again and again before it sleeps, which costs its peer a call of the kernel to wake it.
  std::chrono::nanoseconds spin{50'000};
  /// Ranks outnumber cores: an idle rank lets others run between two looks.
  bool crowded = false;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

  HostRanks() = default;
  /// Waits for all devices: one may be reading what lies on another.
  ~HostRanks();

  /// Ends every rank of the process with `why`; the first reason stays.
  void break_up(const std::string& why);
  bool broken() const { return broken_; }
  std::string reason() const;

 private:
  std::atomic<bool> broken_{false};
  mutable std::mutex mutex_;
  std::string reason_;
};

/// One thread's rank: a ledger whose bytes move by pointer, on a device or through a port.
class HostRank final : public LedgerBackend, private PortUser {
 public:
  HostRank(HostRanks& world, int rank, std::unique_ptr<Port> port = nullptr, std::unique_ptr<RankDevice> device = nullptr);
  ~HostRank() override;

  /// Null: this rank's data is in the process's memory. Else buffers may also be in the device's. What one rank sends from a device
  /// another may receive without one, and the other way round; two with devices have to agree.
  RankDevice* device() const { return device_.get(); }
  /// How the device's memory goes to the network and comes from it: past this process's, and so far always.
  bool past_host() const { return past_host_; }
  bool always_past_host() const { return past_host_ && !staged_to_network_; }
  struct Detach {
    Port* port = nullptr;
    void operator()(std::byte* base) const {
      if (port) port->detach(base);
    }
  };
  using Attachment = std::unique_ptr<std::byte, Detach>;
  /// Memory that this rank will send from, for as long as the result lives, and no longer than the memory. Optional; see
  /// Port::attach.
  [[nodiscard]] Attachment attach(Buffer data);
  /// After an all-reduce: the next may use the same tags. All verbs must be done.
  void next_round();
  /// From any thread: look again (the world broke up).
  void wake();

 private:
  struct Letter;   // what one thread tells another
  struct Message;  // where a message's bytes are, until they are used
  struct Key {
    int from;
    std::uint32_t round;
    std::uint64_t tag;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& k) const;
  };
  struct Job {  // what the device is at: a share of a receive, or of a send's way out
    Key key;
    Event release{};                 // the sender's event, named back at the end; 0: it has been
    bool reads_peer = false;         // memory of another rank of the process
    std::size_t puts = 0;            // bytes that are then where they belong
    bool completes = false;          // and if those are all, the receive is complete
    std::shared_ptr<Piece> piece{};  // where they come from, if from a port
    Event send{};                    // instead: bytes of this send that may then leave, from this process's memory
    bool past_host = false;          // or from the device's
    std::size_t offset = 0, bytes = 0;
  };
  struct Staged {  // a send that leaves the device through this process's memory
    std::shared_ptr<std::byte> memory;
    std::size_t parts = 0;  // not sent yet
  };

  void send_ready(Event send) override;
  void recv_posted(Event recv) override;
  void may_write(Event recv) override;
  void do_wait(Event event) override;
  void do_wait_all() override;
  double do_now() const override;
  void sent(Event send) override;
  void arrived(Piece&& piece) override;

  void deliver(Letter&& letter);
  void let_go();
  void send_past_host(Event send);
  void stage(Event send);
  void forward(const Job& job);
  void part_sent(Event send);
  void check_size(const Key& key, std::uint64_t bytes, const Pending& p) const;
  [[noreturn]] void refuse_device_memory(const Key& key) const;
  void end_if_broken() const;
  void use(const Key& key, Message& message);
  bool open_letters();
  bool progress();
  void use_device(const Key& key, Message& message);
  bool collect_jobs();
  void sleep(double seconds);
  template <class Finished>
  void progress_until(Finished finished);
  template <class Finished>
  void look_until(Finished finished);
  template <class Work>
  void or_give_up(Work work);

  HostRanks& world_;
  std::unique_ptr<Port> port_;
  std::unique_ptr<RankDevice> device_;
  bool past_host_ = false, staged_to_network_ = false;
  std::unordered_map<std::uint32_t, Staged> staged_;  // by send
  std::deque<Job> jobs_;                              // in the device's order
  std::uint32_t round_ = 0;
  int bell_;  // an eventfd: mail for a sleeping rank
  std::atomic<bool> asleep_{false};
  std::atomic<int> reading_peers_{0};  // memory of other ranks of the process, in so many places
  std::atomic<bool> mail_{false};
  std::mutex mutex_;
  std::vector<Letter> inbox_;  // guarded by mutex_; all else belongs to the rank's thread
  std::vector<Letter> reading_;
  std::vector<std::vector<std::byte>> spare_;           // memory of messages set aside, for the next ones
  std::unordered_map<Key, Message, KeyHash> messages_;  // posted and not complete, or here and not asked for
};

}  // namespace foreduce
