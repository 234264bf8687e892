#include "sim/message_log.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace foreduce {

MessageLog::Number MessageLog::open(const MessageRecord& message, std::vector<std::size_t> links,
                                    const Alone& alone) {
  messages_.push_back(message);
  if (messages_only_) return messages_.size() - 1;
  links_.push_back(std::move(links));
  pieces_.emplace_back();
  limiting_.emplace_back();
  alone_.push_back(alone);
  return messages_.size() - 1;
}

std::vector<LinkRate> MessageLog::rates_of(Number number) const {
  const MessageRecord& m = messages_[number];
  std::vector<LinkRate> rates = pieces_[number];
  rates.push_back({m.left, 0});
  double sum = 0;
  for (std::size_t i = 0; i + 1 < rates.size(); ++i)
    if (const double lasts = rates[i + 1].at - rates[i].at; lasts > 0) sum += rates[i].rate * lasts;
  if (sum > 0 && std::isfinite(sum)) {
    for (LinkRate& r : rates) r.rate *= m.wire / sum;
    return rates;
  }
  // Nothing held it up, or nobody told its rates: its bytes are spread over the time that it took.
  constexpr double kLeast = 1e-9;
  const double end = std::max({m.left, m.landed, m.leaves + kLeast});
  return {{m.leaves, m.wire / (end - m.leaves)}, {end, 0}};
}

std::vector<LinkRate> MessageLog::rates_on(std::size_t link, double flows) const {
  std::map<double, double> changes;
  for (Number n = 0; n < messages_.size(); ++n) {
    const auto times = std::count(links_[n].begin(), links_[n].end(), link);
    if (times == 0 || messages_[n].wire == 0) continue;
    double before = 0;
    for (const LinkRate& r : rates_of(n)) {
      changes[r.at] += static_cast<double>(times) * flows * (r.rate - before);
      before = r.rate;
    }
  }
  std::vector<LinkRate> rates;
  double rate = 0, highest = 0;
  for (const auto& [at, change] : changes) {
    rate += change;
    highest = std::max(highest, rate);
    if (rate < 1e-12 * highest) rate = 0;  // what rounding leaves of a sum that is zero
    rates.push_back({at, rate});
  }
  return rates;
}

namespace {

/// Adds a step that begins where the last one ends; nothing where no time passes.
void add_step(std::vector<PathStep>& path, PathStep step) {
  if (!path.empty()) step.start = path.back().end;
  if (step.end <= step.start) return;
  path.push_back(step);
}

}  // namespace

/// The bytes of a message on their way out: for each link that limited them in turn, what they take
/// alone, of that what the NICs take, and what they take longer.
void MessageLog::add_transfer(const LoggedEvent& left, double start, WaitReason wait_reason,
                              std::vector<PathStep>& path) const {
  const Number n = left.message;
  const Alone& alone = alone_[n];
  const MessageRecord& m = messages_[n];
  std::map<std::size_t, std::pair<double, double>> parts;  // by link: alone, and longer
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < pieces_[n].size(); ++i) {
    const bool last = i + 1 == pieces_[n].size();
    const double until = last ? left.at : pieces_[n][i + 1].at, lasts = until - pieces_[n][i].at;
    if (lasts <= 0) continue;
    const std::size_t link = limiting_[n][i] == kNoLink ? alone.link : limiting_[n][i];
    const double own =
        std::isfinite(alone.rate) ? std::min(1.0, pieces_[n][i].rate / alone.rate) : 1;
    if (!parts.contains(link)) order.push_back(link);
    parts[link].first += lasts * own;
    parts[link].second += lasts * (1 - own);
  }
  if (order.empty()) {
    order.push_back(alone.link);
    parts[alone.link].first = left.at - start;
  }
  const double bytes = m.wire > 0 ? (m.wire - alone.overhead) / m.wire : 1;
  double at = start;
  for (const std::size_t link : order) {
    const auto [own, longer] = parts[link];
    const bool last = link == order.back();
    add_step(path,
             {PathStepKind::overhead, wait_reason, at, at + own * (1 - bytes), n, PathStep::kNone});
    add_step(path, {PathStepKind::transfer, wait_reason, at,
                    last && longer <= 0 ? left.at : at + own, n, link});
    at += own + longer;
    add_step(path, {PathStepKind::sharing, wait_reason, at, last ? left.at : at, n, link});
  }
}

std::vector<PathStep> MessageLog::path_to(EventId event) const {
  std::vector<EventId> back;
  for (EventId m = event; m != 0; m = events_[m].cause) back.push_back(m);
  std::vector<PathStep> path;
  double at = 0;
  Number message = kNoMessage;
  WaitReason wait_reason = WaitReason::by_data;
  for (std::size_t i = back.size(); i-- > 0;) {
    const LoggedEvent& h = events_[back[i]];
    if (h.message != message)
      wait_reason = h.kind == PathStepKind::nothing ? WaitReason::by_data
                    : h.kind == PathStepKind::rest || h.kind == PathStepKind::transfer
                        ? WaitReason::by_connection
                        : WaitReason::by_handler;
    message = h.message;
    if (h.kind == PathStepKind::transfer) add_transfer(h, at, wait_reason, path);
    else add_step(path, {h.kind, wait_reason, at, h.at, h.message, PathStep::kNone});
    at = std::max(at, h.at);
  }
  return path;
}

}  // namespace foreduce
