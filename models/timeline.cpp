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
      queues_[static_cast<std::size_t>(tasks[t].stream)].push_back(t);
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
  std::size_t head(std::size_t stream) const { return queues_[stream][next_[stream]]; }

  /// Marks end as they start, so that one may let another start.
  void start_what_can() {
    for (bool again = true; again;) {
      again = false;
      for (std::size_t s = 0; s < kStreams; ++s) {
        if (running_[s] || next_[s] == queues_[s].size() || waits_[head(s)] > 0) continue;
        result_.start[head(s)] = Seconds{now_};
        left_[s] = tasks_[head(s)].alone.value;
        running_.set(s);
        if (left_[s] > 0) continue;
        finish(s);
        again = true;
      }
    }
  }

  void finish(std::size_t s) {
    const std::size_t task = head(s);
    result_.end[task] = Seconds{now_};
    for (const std::size_t t : followers_[task]) --waits_[t];
    running_.reset(s);
    ++next_[s];
  }

  /// To the next end of a task.
  void advance() {
    StreamSet collectives = running_;
    collectives.reset(kComputing);
    std::array<double, kStreams> speed{};
    double step = std::numeric_limits<double>::infinity();
    std::size_t first = 0;
    for (std::size_t s = 0; s < kStreams; ++s) {
      if (!running_[s]) continue;
      speed[s] = s == kComputing      ? (collectives.any() ? speeds_.compute : 1)
                 : speeds_.collective ? speeds_.collective(static_cast<Stream>(s), collectives)
                                      : 1;
      if (left_[s] / speed[s] < step) {
        step = left_[s] / speed[s];
        first = s;
      }
    }
    const double lost = step * (1 - speed[kComputing]);
    for (std::size_t s = 0; s < kStreams; ++s)
      if (collectives[s])
        result_.delayed[s] += Seconds{lost / static_cast<double>(collectives.count())};
    now_ += step;
    for (std::size_t s = 0; s < kStreams; ++s) {
      if (!running_[s]) continue;
      const bool ends = s == first || left_[s] <= speed[s] * step;
      left_[s] = ends ? 0 : left_[s] - speed[s] * step;
      if (ends) finish(s);
    }
  }

  const std::vector<Task>& tasks_;
  const StreamSpeeds& speeds_;
  std::vector<std::size_t> waits_;
  std::vector<std::vector<std::size_t>> followers_;
  std::array<std::vector<std::size_t>, kStreams> queues_;
  std::array<std::size_t, kStreams> next_{};
  std::array<double, kStreams> left_{};
  StreamSet running_;
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
