#include "models/timeline.hpp"

#include <algorithm>
#include <limits>

namespace foreduce {
namespace {

constexpr std::size_t kComputing = static_cast<std::size_t>(Stream::compute);

class Player {
 public:
  Player(const std::vector<Task>& tasks, const StreamSpeeds& speeds)
      : tasks_(tasks), speeds_(speeds), waits_(tasks.size()), followers_(tasks.size()) {
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      queues_[static_cast<std::size_t>(tasks[t].queue)].push_back(t);
      waits_[t] = tasks[t].after.size();
      for (const std::size_t before : tasks[t].after) followers_[before].push_back(t);
    }
    result_.start.resize(tasks.size());
    result_.end.resize(tasks.size());
  }

  Timeline run() {
    while (true) {
      start_what_can();
      if (running_.none()) break;
      advance();
    }
    result_.total = Seconds{now_};
    return std::move(result_);
  }

 private:
  std::size_t head(std::size_t queue) const { return queues_[queue][next_[queue]]; }

  /// Marks end as they start, so that one may let another start.
  void start_what_can() {
    for (bool again = true; again;) {
      again = false;
      for (std::size_t q = 0; q < kStreams; ++q) {
        if (running_[q] || next_[q] == queues_[q].size() || waits_[head(q)] > 0) continue;
        result_.start[head(q)] = Seconds{now_};
        left_[q] = tasks_[head(q)].alone.value;
        running_.set(q);
        if (left_[q] > 0) continue;
        finish(q);
        again = true;
      }
    }
  }

  void finish(std::size_t q) {
    const std::size_t task = head(q);
    result_.end[task] = Seconds{now_};
    for (const std::size_t t : followers_[task]) --waits_[t];
    running_.reset(q);
    ++next_[q];
  }

  /// To the next end of a task.
  void advance() {
    StreamSet collectives;
    for (std::size_t q = 0; q < kStreams; ++q)
      if (running_[q]) collectives.set(static_cast<std::size_t>(tasks_[head(q)].stream));
    collectives.reset(kComputing);
    double beside_them = 1;
    for (std::size_t s = 0; s < kStreams; ++s)
      if (collectives[s]) beside_them = std::min(beside_them, speeds_.compute[s]);
    std::array<double, kStreams> speed{};
    double step = std::numeric_limits<double>::infinity();
    std::size_t first = 0;
    for (std::size_t q = 0; q < kStreams; ++q) {
      if (!running_[q]) continue;
      speed[q] = q == kComputing      ? beside_them
                 : speeds_.collective ? speeds_.collective(tasks_[head(q)].stream, collectives)
                                      : 1;
      if (left_[q] / speed[q] < step) {
        step = left_[q] / speed[q];
        first = q;
      }
    }
    const double lost = step * (1 - speed[kComputing]);
    for (std::size_t s = 0; s < kStreams; ++s)
      if (collectives[s])
        result_.delayed[s] += Seconds{lost / static_cast<double>(collectives.count())};
    now_ += step;
    for (std::size_t q = 0; q < kStreams; ++q) {
      if (!running_[q]) continue;
      const bool ends = q == first || left_[q] <= speed[q] * step;
      left_[q] = ends ? 0 : left_[q] - speed[q] * step;
      if (ends) finish(q);
    }
  }

  const std::vector<Task>& tasks_;
  const StreamSpeeds& speeds_;
  std::vector<std::size_t> waits_;
  std::vector<std::vector<std::size_t>> followers_;
  std::array<std::vector<std::size_t>, kStreams> queues_;
  std::array<std::size_t, kStreams> next_{};
  std::array<double, kStreams> left_{};
  std::bitset<kStreams> running_;  // queues
  double now_ = 0;
  Timeline result_;
};

}  // namespace

Timeline play(const std::vector<Task>& tasks, const StreamSpeeds& speeds) {
  return Player(tasks, speeds).run();
}

std::array<Seconds, kStreams> delays(const std::vector<Task>& tasks,
                                     const std::vector<Seconds>& start,
                                     const std::vector<Seconds>& end) {
  struct Edge {
    double at;
    std::size_t stream;
    int change;
  };
  std::vector<Edge> edges;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const auto stream = static_cast<std::size_t>(tasks[t].stream);
    edges.push_back({start[t].value, stream, 1});
    edges.push_back({end[t].value, stream, -1});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
  std::array<Seconds, kStreams> delayed{};
  std::array<int, kStreams> running{};
  double before = 0;
  for (const Edge& edge : edges) {
    const auto busy =
        std::count_if(running.begin() + 1, running.end(), [](int n) { return n > 0; });
    if (running[kComputing] == 0)
      for (std::size_t s = 1; s < kStreams; ++s)
        if (running[s] > 0) delayed[s] += Seconds{(edge.at - before) / static_cast<double>(busy)};
    before = edge.at;
    running[edge.stream] += edge.change;
  }
  return delayed;
}

}  // namespace foreduce
