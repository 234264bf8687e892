#include "sim/message_log.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace foreduce {

MessageLog::Number MessageLog::open(const MessageRecord& message, std::vector<std::size_t> links) {
  messages_.push_back(message);
  links_.push_back(std::move(links));
  pieces_.emplace_back();
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

}  // namespace foreduce
