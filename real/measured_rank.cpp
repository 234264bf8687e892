#include "real/measured_rank.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace foreduce {

std::size_t messages_to_one(const Layout& layout, const Plan& plan) {
  return static_cast<std::size_t>(layout.size()) * static_cast<std::size_t>(plan.segments) *
         static_cast<std::size_t>(plan.channels);
}

void RankData::push(std::size_t bytes) {
  if (!device_ || bytes == 0) return;
  device_->copy(on_device_.get(), on_host_.data(), bytes);
  device_->wait_for_copies();
}

void RankData::pull(std::size_t bytes) {
  if (!device_ || bytes == 0) return;
  device_->copy(on_host_.data(), on_device_.get(), bytes);
  device_->wait_for_copies();
}

void RankData::copy(RankData& from, const Buffer& range) {
  if (range.count == 0) return;
  const std::size_t at = range.offset * size_of(range.type);
  if (device_) device_->copy(on_device_.get() + at, from.on_device_.get() + at, range.bytes());
  else std::memcpy(on_host_.data() + at, from.on_host_.data() + at, range.bytes());
}

void RankData::clear(std::size_t bytes) {
  if (bytes == 0) return;
  if (device_) device_->clear(on_device_.get(), bytes);
  else std::memset(on_host_.data(), 0, bytes);
}

MeasuredRank::MeasuredRank(HostRank& rank, const Session& session)
    : rank_(rank),
      workers_(session.workers()),
      everyone_(session.everyone()),
      equal_ranks_(Layout::uniform(everyone_.size())),
      is_worker_(rank.rank() < workers_.size()),
      combining_(*find_algorithm("recursive-doubling")) {
  if (!is_worker_) rank_.wait_without_limit();
}

void MeasuredRank::combine(std::span<double> values, Op op) {
  Transport t = transport(equal_ranks_);
  combining_.run(t, {reinterpret_cast<std::byte*>(values.data()), 0, values.size(), Type::f64}, op,
                 with_defaults(combining_, {0, 1}, equal_ranks_, values.size_bytes()), {});
  t.wait_all();
  rank_.next_round();
}

/// Sends the first rank's text to all ranks. It has at most Baseline::kInvitation bytes.
std::string MeasuredRank::broadcast(const std::string& text) {
  std::vector<double> characters(Baseline::kInvitation + 1);
  if (rank_.rank() == 0) {
    characters[0] = static_cast<double>(text.size());
    for (std::size_t i = 0; i < text.size(); ++i)
      characters.at(i + 1) = static_cast<unsigned char>(text[i]);
  }
  combine(characters, Op::sum);
  std::string all;
  for (std::size_t i = 0; i < static_cast<std::size_t>(characters[0]); ++i)
    all += static_cast<char>(static_cast<unsigned char>(characters[i + 1]));
  return all;
}

std::unique_ptr<BaselineRank> MeasuredRank::join(Baseline& baseline, double timeout_s) {
  const std::string invitation = broadcast(rank_.rank() == 0 ? baseline.invitation() : "");
  if (!is_worker_) return nullptr;
  return baseline.join(
      {rank_.rank(), workers_.size(), rank_.device() ? rank_.device()->number() : -1, timeout_s},
      invitation);
}

void MeasuredRank::compare_clocks() {
  constexpr int kTrips = 8;
  Transport t = transport(equal_ranks_);
  const auto buffer = [](double& value) {
    return Buffer{reinterpret_cast<std::byte*>(&value), 0, 1, Type::f64};
  };
  double quickest = kUnknown, theirs = 0;
  const auto trip = [&](int peer, int i) {
    double mine = 0;
    if (rank_.rank() == 0) {
      t.wait(t.recv(peer, {.step = 0, .segment = i}, buffer(mine)));
      mine = t.now();
      t.send(peer, {.step = 1, .segment = i}, buffer(mine));
    } else {
      const double sent = t.now();
      t.send(peer, {.step = 0, .segment = i}, buffer(mine));
      t.wait(t.recv(peer, {.step = 1, .segment = i}, buffer(theirs)));
      const double back = t.now();
      if (back - sent < quickest) {
        quickest = back - sent;
        ahead_ = (sent + back) / 2 - theirs;
      }
    }
    t.wait_all();
  };
  for (int peer = 1; peer < everyone_.size(); ++peer)
    for (int i = 0; i < kTrips; ++i)
      if (rank_.rank() == 0 || rank_.rank() == peer) trip(rank_.rank() == 0 ? peer : 0, i);
  rank_.next_round();
}

void MeasuredRank::start_together() {
  const double before = now();
  double at = before - ahead_ + (quickest_barrier_ < kUnknown ? 3 * quickest_barrier_ : 0);
  combine({&at, 1}, Op::max);
  at += ahead_;
  quickest_barrier_ = std::min(quickest_barrier_, now() - before);
  constexpr double kWake = 100e-6;  // how late a sleeping thread may wake up
  if (const double left = at - now(); left > 2 * kWake)
    std::this_thread::sleep_for(std::chrono::duration<double>(left - kWake));
  while (now() < at) std::this_thread::yield();
}

void MeasuredRank::run(const Algorithm& algorithm, const Plan& plan, Buffer data) {
  if (is_worker_ || algorithm.uses_servers) {
    Transport t = transport_for(algorithm);
    rank_.stop_all_on_failure([&] {
      algorithm.run(t, data, Op::sum, plan, {});
      t.wait_all();
    });
  }
  rank_.next_round();
}

}  // namespace foreduce
