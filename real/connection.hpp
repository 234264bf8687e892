// Inside the rendezvous: one connection between two processes.
#pragma once

#include <array>
#include <boost/asio.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "real/rendezvous_frames.hpp"

namespace foreduce {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

/// A TCP connection that carries frames. It reads one after another, and writes in order.
class FrameConnection : public std::enable_shared_from_this<FrameConnection> {
 public:
  explicit FrameConnection(tcp::socket socket)
      : socket_(std::move(socket)), timer_(socket_.get_executor()) {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
  }

  /// `done` gets the next frame, or nothing if the connection broke or did not send a valid frame.
  void read(std::uint32_t at_most, std::function<void(std::optional<nlohmann::json>)> done) {
    asio::async_read(
        socket_, asio::buffer(head_),
        [self = shared_from_this(), at_most, done](error_code failed, std::size_t) {
          const auto length = failed ? std::nullopt : decode_frame_head(self->head_, at_most);
          if (!length) return done(std::nullopt);
          self->body_.resize(*length);
          asio::async_read(self->socket_, asio::buffer(self->body_),
                           [self, done](error_code broken, std::size_t) {
                             done(broken ? std::nullopt : decode_frame_body(self->body_));
                           });
        });
  }

  void write(const nlohmann::json& message) {
    queue_.push_back(encode_frame(message));
    if (queue_.size() == 1) write_next();
  }
  bool written() const { return queue_.empty(); }

  /// Closes the connection unless stop_timer() comes first.
  void start_timer(std::chrono::steady_clock::duration time) {
    timer_.expires_after(time);
    timer_.async_wait([self = shared_from_this()](error_code cancelled) {
      if (!cancelled) self->close();
    });
  }
  void stop_timer() { timer_.cancel(); }
  void close() {
    error_code ignored;
    socket_.close(ignored);
  }
  std::string local() const {
    error_code ignored;
    return socket_.local_endpoint(ignored).address().to_string();
  }

 private:
  void write_next() {
    asio::async_write(socket_, asio::buffer(queue_.front()),
                      [self = shared_from_this()](error_code failed, std::size_t) {
                        self->queue_.pop_front();
                        if (failed) self->queue_.clear();
                        if (!self->queue_.empty()) self->write_next();
                      });
  }

  tcp::socket socket_;
  asio::steady_timer timer_;
  std::array<char, kFrameHeadBytes> head_{};
  std::string body_;
  std::deque<std::string> queue_;
};

}  // namespace foreduce
