// SimGrid's engine, set up so that a link does what its data sheet says, and one network zone in
// which every flow brings its own links along: no table of all pairs.
#pragma once

#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>

#include <functional>
#include <memory>
#include <string>

#include "sim/collective.hpp"

namespace foreduce {

/// Says which links the flow crosses that SimGrid is just starting.
class FlowRoutes {
 public:
  virtual ~FlowRoutes() = default;
  virtual void route(simgrid::kernel::routing::Route* into) = 0;
};

/// One engine a process: either that of the ranks alone, or one whose links SimGrid shares.
class Engine {
 public:
  /// SimGrid shares the links; `routes` must outlive the engine.
  explicit Engine(FlowRoutes& routes) : Engine(&routes) {}
  /// SimGrid runs ranks only, as often as is asked for.
  static Engine& of_ranks();

  /// `units` are bytes times kGrain a second.
  simgrid::s4u::Link* add_link(const std::string& name, double units);
  /// A link whose capacity each flow gets for itself.
  simgrid::s4u::Link* add_flow_limit(const std::string& name, double units);
  /// All that SimGrid need know of hosts: every flow has links of its own.
  simgrid::s4u::Host* here() const { return here_; }
  simgrid::s4u::Host* there() const { return there_; }
  /// Of ranks that are started from now on.
  void set_stack_guard(StackGuard guard);
  /// No more links.
  void seal();
  /// Runs the ranks until all have ended. Calls `deadlocked` where none can go on.
  void run(std::function<void()> deadlocked);

 private:
  explicit Engine(FlowRoutes* routes);

  std::unique_ptr<simgrid::s4u::Engine> engine_;
  simgrid::s4u::NetZone* zone_ = nullptr;  // SimGrid owns it
  simgrid::s4u::Host *here_ = nullptr, *there_ = nullptr;
  std::function<void()> deadlocked_;
  StackGuard stack_guard_ = StackGuard::page;  // as SimGrid does by itself
};

}  // namespace foreduce
