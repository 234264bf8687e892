#include "real/rendezvous.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "algorithms/core/transport.hpp"
#include "real/connection.hpp"
#include "real/process_end.hpp"

namespace foreduce {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

/// Frames have at most so many bytes.
constexpr std::uint32_t kHelloBytes = 4096, kIntroductionBytes = 16 * 1024 * 1024,
                        kFrameBytes = 256 * 1024 * 1024;
/// How long a connection to process 0 may take to say hello, and how many may be about to.
constexpr std::chrono::seconds kStrangerTime{5};
constexpr std::size_t kMostUnidentified = 64;

/// The first key on which two settings differ, in words.
std::string difference(const json& ours, const json& theirs) {
  for (const auto& [key, value] : ours.items())
    if (!theirs.contains(key)) return fmt::format("{} (missing there)", key);
    else if (theirs.at(key) != value)
      return fmt::format("{}: {} there, {} here", key, theirs.at(key).dump(), value.dump());
  for (const auto& [key, value] : theirs.items())
    if (!ours.contains(key)) return fmt::format("{} (missing here)", key);
  return "";
}

}  // namespace

struct Rendezvous::State {
  explicit State(const RendezvousOptions& o)
      : options(o), acceptor(io), pause(io), process_end(io) {}

  RendezvousOptions options;
  asio::io_context io;
  tcp::acceptor acceptor;
  asio::steady_timer pause;  // after a failed accept, or a failed attempt to connect
  asio::posix::stream_descriptor process_end;
  ProcessEnd ended;  // what is read from it
  std::vector<std::shared_ptr<FrameConnection>>
      connections;  // by process: of all others at process 0, [0] elsewhere
  // The next three: process 0 only.
  std::vector<std::optional<Introduction>> introductions;
  std::deque<std::shared_ptr<FrameConnection>> unidentified;  // who have not said hello, by age
  std::uint64_t dropped = 0;                                  // connections of other programs
  std::string problem;                                        // why the processes cannot meet
  json settings;

  std::mutex mutex;  // guards what follows; the rest belongs to the thread that runs `io`
  std::function<void(const std::string&)> lost;
  std::vector<bool> left;
  bool gave_up = false;
  std::optional<std::jthread> thread;

  bool hub() const { return options.process == 0; }
  std::string where() const { return fmt::format("{}:{}", options.address, options.port); }

  template <class Finished>
  void run_until(Clock::time_point deadline, Finished finished) {
    while (!finished() && problem.empty() && Clock::now() < deadline) {
      io.restart();
      io.run_one_until(deadline);
    }
  }

  /// Until stop_news(), the launcher's word that a process has ended is a problem.
  void read_news() {
    if (options.process_end_fd < 0) return;
    process_end.assign(::dup(options.process_end_fd));
    asio::async_read(process_end, asio::buffer(&ended, sizeof ended),
                     [this](error_code failed, std::size_t) {
                       if (!failed)
                         problem = fmt::format("{} before all processes had met", ended.text());
                     });
  }
  void stop_news() {
    error_code ignored;
    process_end.close(ignored);
  }

  /// Runs what is left to do when the connections are closed: handlers that refer to the caller.
  void run_cancelled() {
    stop_news();
    io.restart();
    io.run();
  }

  void listen() {
    error_code failed;
    if (options.listening_socket >= 0) {
      acceptor.assign(tcp::v4(), options.listening_socket, failed);
    } else {
      const auto found =
          tcp::resolver(io).resolve(options.address, std::to_string(options.port), failed);
      if (failed) throw TransportError(fmt::format("process 0: {}: {}", where(), failed.message()));
      // Many machines resolve their own name to an address that no other machine can reach
      // (127.0.1.1), besides the real one.
      const auto reachable = std::find_if(found.begin(), found.end(), [](const auto& entry) {
        return !entry.endpoint().address().is_loopback();
      });
      const tcp::endpoint endpoint = reachable == found.end() ? *found.begin() : *reachable;
      if (endpoint.address().is_unspecified())
        fmt::print(stderr,
                   "foreduce: process 0 listens on all networks of this host (MASTER_ADDR is {}); "
                   "the address of one network is safer\n",
                   options.address);
      acceptor.open(endpoint.protocol(), failed);
      if (!failed) acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
      if (!failed) acceptor.bind(endpoint, failed);
      if (!failed) acceptor.listen(asio::socket_base::max_listen_connections, failed);
    }
    if (failed)
      throw TransportError(
          fmt::format("process 0 cannot listen on {}: {}", where(), failed.message()));
  }

  void accept() {
    acceptor.async_accept([this](error_code failed, tcp::socket socket) {
      if (failed == asio::error::operation_aborted || !acceptor.is_open()) return;
      if (failed) {  // too many descriptors, or a connection that was closed again: others may
                     // still come
        pause.expires_after(std::chrono::milliseconds(50));
        return pause.async_wait([this](error_code cancelled) {
          if (!cancelled) accept();
        });
      }
      auto connection = std::make_shared<FrameConnection>(std::move(socket));
      add_unidentified(connection);
      connection->start_timer(kStrangerTime);
      connection->read(kHelloBytes, [this, connection](std::optional<json> message) {
        connection->stop_timer();
        if (std::erase(unidentified, connection) == 0) return;  // it had to make room
        const auto hello = message ? decode_hello(*message, options.processes) : std::nullopt;
        if (!hello || !greet(connection, *hello)) drop(connection);
      });
      accept();
    });
  }

  /// Whoever comes last is kept: a process of the run says hello at once, so the others are idle.
  void add_unidentified(const std::shared_ptr<FrameConnection>& connection) {
    if (unidentified.size() == kMostUnidentified) {
      drop(unidentified.front());
      unidentified.pop_front();
    }
    unidentified.push_back(connection);
  }

  void drop(const std::shared_ptr<FrameConnection>& connection) {
    connection->close();
    if (dropped++ == 0)
      fmt::print(stderr,
                 "foreduce: process 0 dropped a connection to {} that is of no process of this run "
                 "(said once)\n",
                 where());
  }

  /// Handles the first frame of a connection at process 0. Returns false if it is not from a
  /// process of this run.
  bool greet(const std::shared_ptr<FrameConnection>& connection, const Hello& hello) {
    const auto index = static_cast<std::size_t>(hello.process);
    if (hello.job != options.job || hello.token != options.token || connections[index])
      return false;
    connections[index] = connection;
    // The process opens its ports between the two frames, so it gets the whole timeout.
    connection->read(kIntroductionBytes, [this, index](std::optional<json> message) {
      introductions[index] = message ? decode_introduction(*message) : std::nullopt;
      if (!introductions[index]) return lose(index);
      if (const std::string differs = difference(settings, introductions[index]->settings);
          !differs.empty())
        problem = fmt::format("process {} was started differently from process 0: {}", index,
                              printable(differs));
    });
    return true;
  }

  /// A process said hello and no more. Without a token that may have been another program, and the
  /// process may still come.
  void lose(std::size_t process) {
    connections[process]->close();
    connections[process] = nullptr;
    if (options.token)
      problem = fmt::format("process {} is gone before all processes have met", process);
  }

  Clock::duration timeout() const {
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(options.timeout_s));
  }

  void connect() {
    const auto deadline = Clock::now() + timeout();
    std::string why = "nobody listens there";
    while (Clock::now() < deadline && problem.empty()) {
      error_code failed;
      const auto found =
          tcp::resolver(io).resolve(options.address, std::to_string(options.port), failed);
      tcp::socket socket(io);
      if (!failed) {
        bool done = false;
        asio::async_connect(socket, found, [&](error_code result, const tcp::endpoint&) {
          failed = result;
          done = true;
        });
        run_until(deadline, [&] { return done; });
        if (!done) {
          socket.close();
          run_cancelled();
          break;
        }
      }
      if (!failed) {
        connections[0] = std::make_shared<FrameConnection>(std::move(socket));
        connections[0]->write(Hello{options.process, options.job, options.token}.message());
        return run_until(deadline, [this] { return connections[0]->written(); });
      }
      why = failed.message();
      bool rested = false;
      pause.expires_after(std::chrono::milliseconds(50));
      pause.async_wait([&rested](error_code) { rested = true; });
      run_until(deadline + std::chrono::seconds(1), [&rested] { return rested; });
      if (!rested) {
        pause.cancel();
        run_cancelled();
      }
    }
    if (!problem.empty())
      throw TransportError(fmt::format("process {}: {}", options.process, problem));
    throw TransportError(fmt::format("process {}: process 0 did not answer at {} within {} s: {}",
                                     options.process, where(), options.timeout_s, why));
  }

  /// Process 0: waits for everyone, and tells all what everyone said about itself.
  Meeting gather(const json& about) {
    accept();
    const auto missing = [this] {
      std::string processes;
      for (std::size_t p = 1; p < connections.size(); ++p)
        if (!introductions[p]) processes += fmt::format("{}{}", processes.empty() ? "" : ", ", p);
      return processes;
    };
    run_until(Clock::now() + timeout(), [&] { return missing().empty(); });
    stop_news();
    error_code ignored;
    acceptor.close(ignored);
    pause.cancel();
    if (problem.empty() && !missing().empty())
      problem = fmt::format("process {} of {} did not come to {} within {} s", missing(),
                            options.processes, where(), options.timeout_s);
    for (const auto& connection : std::exchange(unidentified, {})) connection->close();
    if (!problem.empty()) {
      const std::string why = std::exchange(problem, "");
      report_to_all(why);
      run_until(Clock::now() + std::chrono::seconds(1), [&] {
        return std::all_of(connections.begin(), connections.end(),
                           [](const auto& l) { return !l || l->written(); });
      });
      throw TransportError(why);
    }
    MeetingAnswer answer;
    answer.token = RunToken::random();
    answer.everyone.push_back(about);
    for (std::size_t p = 1; p < introductions.size(); ++p)
      answer.everyone.push_back(introductions[p]->about);
    for (const auto& connection : connections)
      if (connection) connection->write(answer.message());
    return {answer.everyone, answer.token};
  }

  /// The other processes: introduce this one, and wait for process 0's answer.
  Meeting introduce(const json& about) {
    connections[0]->write(Introduction{settings, about}.message());
    std::optional<std::optional<json>> answer;
    connections[0]->read(kFrameBytes, [&](std::optional<json> got) { answer = std::move(got); });
    // When its own time is over, process 0 says which process is missing. So wait a little longer
    // for that answer.
    run_until(Clock::now() + timeout() + std::chrono::seconds(2),
              [&] { return answer.has_value(); });
    const bool silent = !answer;
    if (answer && !*answer && options.process_end_fd >= 0)  // the launcher says a moment later why
      run_until(Clock::now() + std::chrono::seconds(1), [] { return false; });
    if (silent) {
      connections[0]->close();
      run_cancelled();
    }
    stop_news();
    if ((silent || !*answer) && !problem.empty())
      throw TransportError(fmt::format("process {}: {}", options.process, problem));
    const auto decoded =
        silent || !*answer ? std::nullopt : decode_answer(**answer, options.processes);
    if (!decoded)
      throw TransportError(fmt::format("process {}: process 0 at {} {}", options.process, where(),
                                       silent    ? "is silent"
                                       : *answer ? "sent an answer that is none"
                                                 : "closed the connection: it is of another run, "
                                                   "or has another FOREDUCE_TOKEN, or is gone"));
    if (!decoded->gave_up.empty())
      throw TransportError(fmt::format("process {}: {}", options.process, decoded->gave_up));
    return {decoded->everyone, decoded->token};
  }

  /// Reads from `process` until it leaves, gives up or its connection breaks.
  void listen_to(std::size_t process) {
    connections[process]->read(kFrameBytes, [this, process](std::optional<json> message) {
      if (message && message->contains("bye")) {
        const std::lock_guard lock(mutex);
        left[process] = true;
        return;
      }
      if (!message) return end(fmt::format("process {} is gone", process), process);
      if (const auto why = decode_give_up(*message)) return end(*why, process);
      listen_to(process);
    });
  }

  void end(const std::string& why, std::size_t from) {
    std::function<void(const std::string&)> call;
    {
      const std::lock_guard lock(mutex);
      if (gave_up || left[from]) return;
      gave_up = true;
      call = lost;
    }
    if (hub()) report_to_all(why);
    if (call) call(why);
  }

  void report_to_all(const std::string& why) {
    for (const auto& connection : connections)
      if (connection) connection->write({{"gave_up", why}});
  }
};

Rendezvous::Rendezvous(const RendezvousOptions& options)
    : state_(std::make_unique<State>(options)) {
  State& s = *state_;
  s.connections.resize(s.hub() ? static_cast<std::size_t>(options.processes) : 1);
  s.introductions.resize(s.connections.size());
  s.left.resize(s.connections.size());
  if (options.processes == 1) return;
  s.read_news();
  if (s.hub()) s.listen();
  else s.connect();
}

Rendezvous::~Rendezvous() {
  if (state_->thread) {
    state_->io.stop();
    state_->thread.reset();
  }
}

std::string Rendezvous::local_address() const {
  if (!state_->hub()) return state_->connections[0]->local();
  error_code unbound;
  const auto endpoint = state_->acceptor.local_endpoint(unbound);
  return unbound ? state_->options.address : endpoint.address().to_string();
}

Meeting Rendezvous::meet(const json& settings, const json& about) {
  State& s = *state_;
  if (s.options.processes == 1) return {{about}, {}};
  s.settings = settings;
  return s.hub() ? s.gather(about) : s.introduce(about);
}

void Rendezvous::watch(std::function<void(const std::string&)> lost) {
  State& s = *state_;
  if (s.options.processes == 1) return;
  s.lost = std::move(lost);
  for (std::size_t p = 0; p < s.connections.size(); ++p)
    if (s.connections[p]) s.listen_to(p);
  s.thread.emplace([&s] {
    const auto work = asio::make_work_guard(s.io);
    s.io.restart();
    s.io.run();
  });
}

void Rendezvous::give_up(const std::string& why) {
  State& s = *state_;
  if (!s.thread) return;
  {
    const std::lock_guard lock(s.mutex);
    if (s.gave_up) return;  // another process gave up first
    s.gave_up = true;
  }
  std::promise<void> reported;
  asio::post(s.io, [&] {
    s.report_to_all(why);
    reported.set_value();
  });
  reported.get_future().wait();
  std::this_thread::sleep_for(
      std::chrono::milliseconds(50));  // lets the report leave before the connection closes
}

void Rendezvous::leave() {
  State& s = *state_;
  if (!s.thread) return;
  const auto all_left = [&] {
    const std::lock_guard lock(s.mutex);
    for (std::size_t p = 0; p < s.connections.size(); ++p)
      if (s.connections[p] && !s.left[p] && !s.gave_up) return false;
    return true;
  };
  const auto say_bye = [&] {
    asio::post(s.io, [&s] {
      for (const auto& connection : s.connections)
        if (connection) connection->write({{"bye", s.options.process}});
    });
  };
  const auto deadline = Clock::now() + std::chrono::duration<double>(s.options.timeout_s);
  if (!s.hub()) say_bye();
  while (!all_left() && Clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (s.hub()) {
    say_bye();
    std::promise<void> idle;
    asio::post(s.io, [&] { idle.set_value(); });
    idle.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace foreduce
