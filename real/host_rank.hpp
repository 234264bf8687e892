// The ranks of one process, one thread each. Ranks of the process exchange pointers; other ranks
// are reached through a port. A rank with a device lets the device copy and reduce data that is in
// the device's memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
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
  /// One entry for each rank of the run; null for ranks of other processes.
  std::vector<std::unique_ptr<HostRank>> by_rank;
  /// A rank without progress for so long reports what it waits for, and all ranks end.
  double timeout_s = 30;
  /// How long an idle rank polls before it sleeps. Waking a sleeping rank costs its peer a system
  /// call.
  std::chrono::nanoseconds spin{50'000};
  /// There are more ranks than cores, so an idle rank yields between two polls.
  bool oversubscribed = false;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

  HostRanks() = default;
  /// Waits for all devices, because one may still read memory of another.
  ~HostRanks();

  /// Ends every rank of the process with `why`. Only the first call has an effect.
  void stop(const std::string& why);
  bool stopped() const { return stopped_; }
  std::string reason() const;

 private:
  std::atomic<bool> stopped_{false};
  mutable std::mutex mutex_;
  std::string reason_;
};

/// One thread's rank: a ledger whose bytes move by pointer, on a device or through a port.
class HostRank final : public LedgerBackend, private PortUser {
 public:
  HostRank(HostRanks& ranks, int rank, std::unique_ptr<Port> port = nullptr,
           std::unique_ptr<RankDevice> device = nullptr);
  ~HostRank() override;

  /// Null if this rank's data is in host memory; otherwise buffers may also be in the device's
  /// memory. A rank may send from a device to a rank without one, and the other way round. Two
  /// ranks with devices must both use them or both not.
  RankDevice* device() const { return device_.get(); }
  /// Whether the network reads and writes the device's memory itself (GPUDirect).
  bool uses_gpudirect() const { return gpudirect_; }
  /// Whether so far no bytes from the device went to the network through host memory.
  bool always_gpudirect() const { return gpudirect_ && !staged_to_network_; }
  struct Detach {
    Port* port = nullptr;
    void operator()(std::byte* base) const {
      if (port) port->detach(base);
    }
  };
  using Attachment = std::unique_ptr<std::byte, Detach>;
  /// Attaches memory that this rank will send from (see Port::attach), for as long as the result
  /// lives. The result must go before the memory does. Optional.
  [[nodiscard]] Attachment attach(Buffer data);
  /// The largest all-reduce to come: bytes of its data, and how many messages a peer may send this
  /// rank in it. They bound what a peer may send before it is asked; more ends the run. Without
  /// this call all-reduces may have 32 MiB.
  void expect(std::size_t bytes, std::size_t messages);
  /// Call after an all-reduce: the next one may then use the same tags. All verbs must be done.
  void next_round();
  /// Waits without a limit of time from now on: for a server, which waits for workers alone. They
  /// have a limit of their own and end all ranks.
  void wait_without_limit() { limited_ = false; }
  /// Whether all ranks of the process were ended.
  bool stopped() const { return ranks_.stopped(); }
  /// From any thread: makes a sleeping rank look whether it has messages or was stopped.
  void wake();
  /// Does work that posts verbs. If it throws, all ranks are stopped first, and no other rank reads
  /// this rank's memory any more when the exception comes out: the memory may then be freed.
  template <class Work>
  void stop_all_on_failure(Work work) {
    try {
      work();
    } catch (const std::exception& e) {
      stop_all(e);
      throw;
    }
  }

 private:
  /// What any peer may send before it is asked, beside what expect() adds. Barriers and probes need
  /// far less.
  static constexpr std::size_t kEarlyBytes = 64 * 1024 * 1024;
  struct MailboxMessage;  // what one thread sends to another
  struct Message;         // where a message's bytes are until they are used
  struct Key {
    int from;
    std::uint32_t round;
    std::uint64_t tag;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& k) const;
  };
  struct Job {  // an operation of the device: for a segment of a receive, or for one of a send
    Key key;
    Event
        release{};  // the sender's event, which goes back to it at the end; 0: it was sent already
    bool reads_peer = false;             // memory of another rank of the process
    std::size_t places = 0;              // bytes that are in their place afterwards
    bool completes = false;              // the receive, if those were its last bytes
    std::shared_ptr<Segment> segment{};  // where the bytes come from, if from a port
    Event send{};            // for a send: its bytes may leave from host memory afterwards
    bool gpudirect = false;  // or from the device's memory
    std::size_t offset = 0, bytes = 0;
  };
  struct Staged {  // a send that goes from the device through host memory
    std::shared_ptr<std::byte> memory;
    std::size_t segments = 0;  // not sent yet
  };

  void send_ready(Event send) override;
  void recv_posted(Event recv) override;
  void may_write(Event recv) override;
  std::size_t arrived_bytes(Event recv) const override;
  void do_wait(Event event) override;
  void do_wait_all() override;
  double do_now() const override;
  void sent(Event send) override;
  void arrived(Segment&& segment) override;

  HostRank* peer_in_process(int rank) const {
    return ranks_.by_rank[static_cast<std::size_t>(rank)].get();
  }
  void deliver(MailboxMessage&& message);
  void release_resources();
  void send_gpudirect(Event send);
  void stage(Event send);
  void forward(const Job& job);
  void segment_sent(Event send);
  void count_as_asked(const Key& key, Message& message);
  void refuse_leftovers() const;
  [[noreturn]] void refuse(const Key& key, const std::string& why) const;
  void check_segment(const Key& key, const SegmentHeader& header, const Pending& p) const;
  void check_size(const Key& key, std::uint64_t bytes, const Pending& p) const;
  [[noreturn]] void refuse_device_memory(const Key& key) const;
  void throw_if_stopped() const;
  void use(const Key& key, Message& message);
  bool use_from_peer(const Key& key, Message& message);
  bool use_segments(const Key& key, Message& message);
  bool read_inbox();
  bool progress();
  void use_device(const Key& key, Message& message);
  bool collect_jobs();
  void sleep(double seconds);
  template <class Finished>
  void progress_until(Finished finished);
  template <class Finished>
  void poll_until(Finished finished);
  void stop_all(const std::exception& why);

  HostRanks& ranks_;
  std::unique_ptr<Port> port_;
  std::unique_ptr<RankDevice> device_;
  bool gpudirect_ = false, staged_to_network_ = false, limited_ = true;
  std::unordered_map<std::uint32_t, Staged> staged_;  // by send
  std::deque<Job> jobs_;                              // in the device's order
  std::uint32_t round_ = 0;
  int wake_up_fd_;  // an eventfd: wakes a sleeping rank
  std::atomic<bool> asleep_{false};
  std::atomic<int> reading_peers_{0};  // how many reads of other ranks' memory are under way
  std::atomic<bool> inbox_filled_{false};
  std::mutex mutex_;
  std::vector<MailboxMessage> inbox_;  // guarded by mutex_; all else belongs to the rank's thread
  std::vector<MailboxMessage> being_read_;
  std::vector<std::vector<std::byte>> spare_;  // memory of earlier copies, for reuse
  std::unordered_map<Key, Message, KeyHash>
      messages_;  // receives that are not complete, and messages that nobody asked for yet
  std::vector<std::size_t> early_;  // by peer: memory that its segments without a receive hold
  std::size_t early_limit_ = kEarlyBytes;
};

}  // namespace foreduce
