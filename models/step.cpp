#include "models/step.hpp"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <limits>
#include <utility>

#include "models/tensors.hpp"

namespace foreduce {
namespace {

/// For each tensor, in the order in which gradients appear (reverse registration), how much of
/// backward is done when it is there. Backward time is split as it was measured, else as the
/// forward MACs are, where a tensor without MACs (bias, norm) comes with its neighbours; where no
/// tensor has any, parameters stand for them. Backward begins with the output layer. If its weights
/// are the embedding's, their gradient still comes last, when the embedding has added its part.
std::vector<double> ready_in_reverse(const std::vector<Tensor>& tensors) {
  const bool measured =
      std::any_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.backward > 0; });
  const bool counted =
      std::any_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.macs > 0; });
  const auto share = [measured, counted](const Tensor& t) {
    return measured ? t.backward : counted ? t.macs : static_cast<double>(t.elements);
  };
  double total = 0, done = 0;
  const auto first = [measured](const Tensor& t) { return !measured && is_tied_output(t); };
  for (const Tensor& t : tensors) {
    total += share(t);
    if (first(t)) done += share(t);
  }
  std::vector<double> ready;
  for (auto t = tensors.rbegin(); t != tensors.rend(); ++t) {
    if (!first(*t)) done += share(*t);
    ready.push_back(total > 0 ? std::min(1.0, done / total) : 1);
  }
  if (!ready.empty()) ready.back() = 1;
  return ready;
}

}  // namespace

std::vector<Bucket> ddp_buckets(const std::vector<Tensor>& tensors, std::size_t element_size,
                                Bytes first, Bytes cap) {
  const auto ready = ready_in_reverse(tensors);
  std::vector<Bucket> buckets;
  Bucket open;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    open.elements += tensors[tensors.size() - 1 - i].elements;
    open.ready = ready[i];
    const Bytes limit = buckets.empty() ? first : cap;
    if (static_cast<double>(open.elements * element_size) >= limit.value) {
      buckets.push_back(open);
      open = {};
    }
  }
  if (open.elements > 0) buckets.push_back(open);
  return buckets;
}

std::vector<Bucket> horovod_buckets(const std::vector<Tensor>& tensors, std::size_t element_size,
                                    Bytes threshold, Seconds cycle, Seconds backward) {
  const auto ready = ready_in_reverse(tensors);
  std::vector<Bucket> buckets;
  double tick = -1;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t elements = tensors[tensors.size() - 1 - i].elements;
    const double due = std::ceil(ready[i] * backward.value / cycle.value);
    const bool full = !buckets.empty() && static_cast<double>((buckets.back().elements + elements) *
                                                              element_size) > threshold.value;
    if (due != tick || full) buckets.push_back({0, 0, due * cycle});
    tick = due;
    buckets.back().elements += elements;
    buckets.back().ready = ready[i];
  }
  return buckets;
}

std::vector<Bucket> balanced_buckets(const std::vector<Tensor>& tensors, std::size_t element_size,
                                     Bytes cap) {
  const auto ready = ready_in_reverse(tensors);
  std::size_t total = 0;
  for (const Tensor& t : tensors) total += t.elements;
  const auto count = static_cast<std::size_t>(
      std::max(1.0, std::ceil(static_cast<double>(total * element_size) / cap.value)));
  std::vector<Bucket> buckets;
  std::size_t seen = 0, tensor = 0;
  for (std::size_t b = 0, begin = 0; b < count; ++b) {
    const std::size_t end = total * (b + 1) / count;
    while (seen < end) {
      seen += tensors[tensors.size() - 1 - tensor].elements;
      ++tensor;
    }
    if (end > begin) buckets.push_back({end - begin, ready[tensor - 1]});
    begin = end;
  }
  return buckets;
}

double slowest_of(int gpus, double spread) {
  if (gpus < 2) return 1;
  const double rank = (gpus - 0.375) / (gpus + 0.25);
  return 1 + spread * boost::math::quantile(boost::math::normal(), rank);
}

namespace {

void count_all_reduce(std::vector<CollectiveUse>& all, std::size_t elements, Seconds takes) {
  auto at = std::find_if(all.begin(), all.end(),
                         [&](const CollectiveUse& use) { return use.elements == elements; });
  if (at == all.end()) at = all.insert(at, {Stream::all_reduce, elements, 0});
  ++at->count;
  at->time += takes;
}

/// The slowest GPU's forward and backward passes, the buckets, and the optimizer at the end.
void record(Step& step, const StepInput& in, double last_backward) {
  const auto compute = [&](Work work, int micro_batch, double start, double end, double alone) {
    step.activities.push_back({.work = work,
                               .micro_batch = micro_batch,
                               .alone = Seconds{alone},
                               .start = Seconds{start},
                               .end = Seconds{end}});
  };
  const double forward = in.forward.value * in.slowest, backward = in.backward.value * in.slowest;
  for (int m = 0; m < in.accumulation; ++m) {
    const double begin = (forward + backward) * m;
    const bool last = m == in.accumulation - 1;
    const double turn = last ? last_backward : begin + forward;
    compute(Work::forward, m, begin, turn, forward);
    compute(Work::backward, m, turn, last ? step.backward_end.value : turn + backward, backward);
  }
  for (std::size_t i = 0; i < step.buckets.size(); ++i)
    step.activities.push_back({.stream = Stream::all_reduce,
                               .work = Work::collective,
                               .micro_batch = in.accumulation - 1,
                               .index = i,
                               .elements = in.buckets[i].elements,
                               .alone = step.buckets[i].end - step.buckets[i].start,
                               .start = step.buckets[i].start,
                               .end = step.buckets[i].end});
  const Seconds end = step.total - step.overhead;
  compute(Work::optimizer, in.accumulation - 1, (end - in.optimizer).value, end.value,
          in.optimizer.value);
}

/// The last micro-batch's backward beside a stream of all-reduces: it runs at full speed but while
/// the stream is busy.
class LastBackward {
 public:
  LastBackward(double begin, double length, double compute_share)
      : length_(length),
        compute_share_(compute_share),
        now_(begin),
        stream_free_(begin),
        end_(begin + length) {}

  double stream_free() const { return stream_free_; }
  /// When the last of it is computed, if no more all-reduces come.
  double end() const { return done_ < length_ ? time_of(1) : end_; }
  /// When `part` of it will be done, seen from now.
  double time_of(double part) const {
    double at = now_, left = std::max(0.0, part * length_ - done_);
    if (at < stream_free_) {
      const double in_busy = (stream_free_ - at) * compute_share_;
      if (left <= in_busy) return at + left / compute_share_;
      left -= in_busy;
      at = stream_free_;
    }
    return at + left;
  }
  /// Computes up to `start`, from when the stream is busy until `end`.
  void all_reduce(double start, double end) {
    advance_to(start);
    stream_free_ = end;
  }

 private:
  void advance_to(double time) {
    while (now_ < time && done_ < length_) {
      const bool busy = now_ < stream_free_;
      const double speed = busy ? compute_share_ : 1;
      const double until =
          std::min(time, busy ? stream_free_ : std::numeric_limits<double>::infinity());
      const double ends = now_ + (length_ - done_) / speed;
      if (ends <= until) {
        now_ = ends;
        done_ = length_;
        end_ = now_;
      } else {
        done_ += (until - now_) * speed;
        now_ = until;
      }
    }
    now_ = std::max(now_, time);
  }

  double length_, compute_share_;
  double now_, done_ = 0;  // of the length
  double stream_free_, end_;
};

}  // namespace

namespace {

/// A step whose micro-batches all run as this one, which has no optimizer.
Step repeated(Step one, const StepInput& in) {
  const auto times = static_cast<double>(in.accumulation);
  const Seconds each = one.total, before = each * (times - 1);
  Step step = one;
  step.compute = one.compute * times + in.optimizer;
  step.waiting = one.waiting * times;
  step.communication = one.communication * times;
  step.exposed_communication = one.exposed_communication * times;
  for (CollectiveUse& use : step.collectives) {
    use.count *= in.accumulation;
    use.time = use.time * times;
    use.exposed = use.exposed * times;
  }
  for (BucketSpan& b : step.buckets) b = {b.start + before, b.end + before};
  step.backward_end = one.backward_end + before;
  step.overhead = in.overhead;
  step.total = each * times + in.optimizer + in.overhead;
  step.activities.clear();
  for (int m = 0; m < in.accumulation; ++m)
    for (Activity a : one.activities) {
      if (a.work == Work::optimizer && m + 1 < in.accumulation) continue;
      const Seconds later = each * static_cast<double>(m);
      a.micro_batch = m;
      a.start = a.start + later;
      a.end = a.end + later + (a.work == Work::optimizer ? in.optimizer : Seconds{0});
      if (a.work == Work::optimizer) a.alone = in.optimizer;
      step.activities.push_back(a);
    }
  wait_for_input(step, in.input);
  return step;
}

}  // namespace

void wait_for_input(Step& step, Seconds input) {
  step.input_wait = std::max(Seconds{0}, input - step.total);
  step.overhead += step.input_wait;
  step.total += step.input_wait;
}

Step play_step(const StepInput& in, const AllReduceTime& all_reduce) {
  if (in.every_micro_batch && in.accumulation > 1) {
    StepInput one = in;
    one.accumulation = 1;
    one.optimizer = one.overhead = one.input = Seconds{0};
    return repeated(play_step(one, all_reduce), in);
  }
  Step step;
  const double forward = in.forward.value * in.slowest, backward = in.backward.value * in.slowest;
  step.compute = (in.forward + in.backward) * in.accumulation + in.optimizer;
  step.waiting = (in.forward + in.backward) * (in.accumulation * (in.slowest - 1));
  const double begin = (forward + backward) * in.accumulation - backward;
  LastBackward last(begin, backward, in.compute_share);
  for (const Bucket& bucket : in.buckets) {
    const double ready =
        std::max(last.time_of(std::min(1.0, bucket.ready)), begin + bucket.not_before.value);
    const double start = std::max(ready, last.stream_free());
    const Seconds takes = all_reduce(bucket.elements);
    last.all_reduce(start, start + takes.value);
    step.communication += takes;
    step.buckets.push_back({Seconds{start}, Seconds{last.stream_free()}});
    count_all_reduce(step.collectives, bucket.elements, takes);
  }
  step.backward_end = Seconds{last.end()};
  step.overhead = in.overhead;
  step.total =
      Seconds{std::max(step.backward_end.value, last.stream_free())} + in.optimizer + step.overhead;
  step.exposed_communication = step.total - step.compute - step.waiting - step.overhead;
  for (CollectiveUse& use : step.collectives)  // in proportion: one stream runs them all
    use.exposed = step.communication.value > 0
                      ? step.exposed_communication * (use.time / step.communication)
                      : Seconds{0};
  if (in.recording == Recording::on) record(step, in, begin);
  wait_for_input(step, in.input);
  return step;
}

std::vector<Task> tasks_of(const StepInput& in) {
  std::vector<Task> tasks;
  std::vector<std::size_t> reduced;  // of the micro-batch before
  const int turns = in.every_micro_batch ? in.accumulation : 1;
  const double each = static_cast<double>(in.accumulation) / turns;
  for (int turn = 0; turn < turns; ++turn) {
    const Seconds before = (in.forward + in.backward) * each - in.backward;
    tasks.push_back({Stream::compute, before, std::exchange(reduced, {})});
    double done = 0;
    for (const Bucket& bucket : in.buckets) {
      const double part = std::clamp(bucket.ready, done, 1.0);
      tasks.push_back({Stream::compute, in.backward * (part - done), {}});
      done = part;
      reduced.push_back(tasks.size());
      tasks.push_back({Stream::all_reduce, {}, {tasks.size() - 1}, bucket.elements});
    }
    tasks.push_back({Stream::compute, in.backward * (1 - done), {}});
  }
  tasks.push_back({Stream::compute, in.optimizer, reduced});
  return tasks;
}

StepSpan span_of_totals(Seconds usual, const StepSpan& by_communication, const StepSpan& by_compute,
                        Seconds least) {
  const auto spread = [usual](Seconds one, Seconds other) {
    return std::exp(std::hypot(std::log(one / usual), std::log(other / usual)));
  };
  const Seconds fastest = usual / spread(by_communication.low, by_compute.low);
  return {std::max(fastest, std::min(usual, least)),
          usual * spread(by_communication.high, by_compute.high)};
}

double fastest_compute(double faster, Seconds compute, Seconds least) {
  const double at_peak = compute.value > 0 ? least / compute : 0;
  return std::min(1.0, std::max(1 / faster, at_peak));
}

StepSpan span_of_step(const StepInput& input, const AllReduceTime& all_reduce,
                      const AllReduceTime& low, const AllReduceTime& high, const Spread& compute) {
  const auto scaled = [&](double factor) {
    StepInput other = input;
    other.forward = input.forward * factor;
    other.backward = input.backward * factor;
    for (Bucket& bucket : other.buckets)
      bucket.not_before = bucket.not_before * factor;  // Horovod's cycles are short beside backward
    return play_step(other, all_reduce).total;
  };
  const double fast =
      fastest_compute(compute.faster, input.forward + input.backward, input.least_compute);
  return span_of_totals(
      play_step(input, all_reduce).total,
      {play_step(input, low).total, play_step(input, high).total},
      {scaled(fast), scaled(compute.slower)},
      std::max(input.input, input.least_compute * input.accumulation + input.overhead));
}

}  // namespace foreduce
