#include "scenarios/sweep/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foreduce {
namespace {

/// Relative to a step's length: times that are one time, computed in two ways.
constexpr double kSame = 1e-9;

PartKind kind_of(PathStepKind kind) {
  switch (kind) {
    case PathStepKind::launch: return PartKind::launch;
    case PathStepKind::rest: return PartKind::rest;
    case PathStepKind::latency: return PartKind::latency;
    case PathStepKind::transfer: return PartKind::transfer;
    case PathStepKind::sharing: return PartKind::sharing;
    case PathStepKind::reduction: return PartKind::reduction;
    case PathStepKind::overhead:
    case PathStepKind::nothing: break;
  }
  return PartKind::overhead;
}

void add(std::vector<TimePart>& parts, const TimePart& part) {
  const auto same = [&](const TimePart& p) { return p.kind == part.kind && p.link == part.link; };
  const auto at = std::find_if(parts.begin(), parts.end(), same);
  if (at == parts.end()) parts.push_back(part);
  else at->time += part.time;
}

void sort_by_time(std::vector<TimePart>& parts) {
  double longest = 0;
  for (const TimePart& p : parts) longest = std::max(longest, p.time.value);
  std::erase_if(parts, [longest](const TimePart& p) {  // what rounding leaves of nothing
    return p.time.value <= 1e-12 * longest;
  });
  std::stable_sort(parts.begin(), parts.end(),
                   [](const TimePart& a, const TimePart& b) { return a.time > b.time; });
}

/// Computing takes some time because other streams run beside it.
struct Slowed {
  double alone = 0, longer = 0;  // seconds
};

/// What a piece of computing, from its activity's start on, would take alone, and what it takes
/// longer: at the activity's own speed while any collective ran.
Slowed slowed_by(const Step& step, const StepPiece& piece) {
  const Activity& a = piece.activity;
  const double lasts = (piece.end - piece.start).value, longer = (a.end - a.start - a.alone).value;
  if (piece.end == a.end) return {lasts - longer, longer};
  const auto busy_until = [&](Seconds end) {
    double sum = 0, done = a.start.value;  // the streams' activities come in the order of starting
    std::vector<const Activity*> others;
    for (const Activity& other : step.activities)
      if (other.work == Work::collective) others.push_back(&other);
    std::sort(others.begin(), others.end(),
              [](const Activity* x, const Activity* y) { return x->start < y->start; });
    for (const Activity* other : others) {
      const double from = std::max(done, other->start.value),
                   until = std::min(end.value, other->end.value);
      if (until <= from) continue;
      sum += until - from;
      done = until;
    }
    return sum;
  };
  const double all = busy_until(a.end);
  const double part = all > 0 ? longer * busy_until(piece.end) / all : 0;
  return {lasts - part, part};
}

/// The activity that ends at a time; else computing that is under way then, for a bucket starts
/// when its last gradient is there; else what ended last before. Null at the start.
const Activity* what_led_to(const Step& step, double time) {
  const double near = kSame * step.total.value;
  const Activity *under_way = nullptr, *before = nullptr;
  for (const Activity& a : step.activities) {
    if (a.end <= a.start || a.start.value >= time - near) continue;
    if (std::abs(a.end.value - time) <= near) return &a;
    if (a.end.value > time && a.work != Work::collective) under_way = &a;
    if (a.end.value < time && (!before || a.end > before->end)) before = &a;
  }
  return under_way ? under_way : before;
}

const ExplainedCollective* explained_of(const Explanation& e, const Activity& a) {
  for (const ExplainedCollective& c : e.collectives)
    if (c.kind == a.stream && c.elements == a.elements) return &c;
  return nullptr;
}

void look_into(ExplainedCollective& c, const Question& question, std::uint64_t messages) {
  try {
    c.recorded = recorded(question, messages, Recorded::path);
    c.parts = parts_of(*c.recorded);
    // Where a long pipeline was extrapolated, the whole one takes a little more or less.
    for (TimePart& part : c.parts) part.time = part.time * (c.time / c.recorded->time);
  } catch (const InputError& error) {
    c.not_recorded = words_of(error);
    c.parts = {{PartKind::collective, "", {}, c.time}};
  }
}

void add_collectives(Explanation& e, const Prediction& p) {
  for (const StepPiece& piece : e.steps) {
    const Activity& a = piece.activity;
    if (a.work != Work::collective || explained_of(e, a)) continue;
    for (const TracedCollective& t : p.traced) {
      if (t.kind != a.stream || t.elements != a.elements) continue;
      look_into(e.collectives.emplace_back(ExplainedCollective{
                    t.kind, t.elements, t.bytes, t.schedule, t.time, {}, {}, {}}),
                *t.question, t.messages);
      break;
    }
  }
}

void add_computing(Explanation& e, const Step& step, const StepPiece& piece) {
  const Work work = piece.activity.work;
  const PartKind kind = work == Work::forward    ? PartKind::forward
                        : work == Work::backward ? PartKind::backward
                                                 : PartKind::optimizer;
  const Slowed time = slowed_by(step, piece);
  Seconds passes = step.compute;
  for (const Activity& a : step.activities)
    if (a.work == Work::optimizer) passes = passes - a.alone;
  const double slowest =
      kind == PartKind::optimizer || passes.value <= 0 ? 1 : 1 + step.waiting / passes;
  add(e.parts, {kind, "", {}, Seconds{time.alone / slowest}});
  add(e.parts, {PartKind::straggler, "", {}, Seconds{time.alone * (1 - 1 / slowest)}});
  add(e.parts, {PartKind::slowed, "", {}, Seconds{time.longer}});
}

/// The parts of a step: of each piece of its path, and of the time between.
void add_parts(Explanation& e, const Step& step) {
  Seconds idle = step.total;
  for (const StepPiece& piece : e.steps) {
    idle = idle - (piece.end - piece.start);
    if (piece.activity.work != Work::collective) {
      add_computing(e, step, piece);
      continue;
    }
    const ExplainedCollective* c = explained_of(e, piece.activity);
    const double lasts = (piece.end - piece.start).value;
    if (!c || c->time.value <= 0) {
      add(e.parts, {PartKind::collective, "", {}, Seconds{lasts}});
      continue;
    }
    const double alone = std::min(lasts, c->time.value);
    for (const TimePart& part : c->parts)
      add(e.parts, {part.kind, part.link, part.link_kind, part.time * (alone / c->time.value)});
    add(e.parts, {PartKind::beside, "", {}, Seconds{lasts - alone}});
  }
  add(e.parts, {PartKind::bubble, "", {}, step.bubble});
  add(e.parts, {PartKind::step_overhead, "", {}, step.overhead - step.input_wait});
  add(e.parts, {PartKind::input_wait, "", {}, step.input_wait});
  const double rest = (idle - step.bubble - step.overhead).value;
  if (rest > kSame * step.total.value) add(e.parts, {PartKind::cycle, "", {}, Seconds{rest}});
}

template <class Point>
Point only_point(Sweep<Point> sweep, Explanation& e) {
  e.provenance = std::move(sweep.provenance);
  e.points = sweep.all;
  Point point = std::move(sweep.points.front());
  if (!point.error.empty())
    throw input_error(fmt::format("point {} has no answer: {}", point.number, point.error));
  return point;
}

}  // namespace

std::vector<TimePart> parts_of(const CollectiveResult& recorded) {
  std::vector<TimePart> parts;
  for (const PathStep& step : recorded.record.path) {
    TimePart part{kind_of(step.kind), "", {}, Seconds{step.end - step.start}};
    if (step.link != PathStep::kNone) {
      part.link = recorded.record.links[step.link].link;
      for (const LinkLoad& load : recorded.loads)
        if (load.link == part.link) part.link_kind = load.kind;
    }
    add(parts, part);
  }
  sort_by_time(parts);
  return parts;
}

std::vector<StepPiece> critical_path(const Step& step) {
  std::vector<StepPiece> path;
  double time = step.total.value;
  while (const Activity* a = what_led_to(step, time)) {
    const double end = std::min(time, a->end.value);
    const bool whole = std::abs(end - a->end.value) <= kSame * step.total.value;
    path.push_back({*a, a->start, whole ? a->end : Seconds{end}});
    time = a->start.value;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

Explanation explain(const Scenario& scenario, const ExplainOptions& options) {
  Explanation e;
  SweepOptions how = options.sweep;
  how.recording = Recording::on;
  how.record = Recorded::path;
  how.recorder = "explain";
  if (scenario.workload) {
    const Prediction p = only_point(predict(scenario, how), e);
    e.time = p.step.total;
    e.steps = critical_path(p.step);
    add_collectives(e, p);
    add_parts(e, p.step);
    sort_by_time(e.parts);
    e.point = p;
  } else {
    const Comparison p = only_point(compare(scenario, how), e);
    e.time = p.time;
    e.collectives.push_back({.elements = p.count,
                             .bytes = Bytes{static_cast<double>(p.bytes)},
                             .schedule = p.loads->schedule,
                             .time = p.time,
                             .parts = parts_of(*p.recorded),
                             .recorded = p.recorded,
                             .not_recorded = {}});
    e.parts = e.collectives.front().parts;
    e.point = p;
  }
  if (options.changes) e.changes = what_would_help(scenario, e, options.sweep);
  return e;
}

}  // namespace foreduce
