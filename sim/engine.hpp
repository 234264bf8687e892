// SimGrid's engine, set up so that a link does what its data sheet says, and one network zone in
// which every flow brings its own links along: no table of all pairs.
#pragma once

#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>

#include <functional>
#include <memory>
#include <string>

namespace foreduce {

/// Says which links the flow crosses that SimGrid is just starting.
class FlowRoutes {
 public:
  virtual ~FlowRoutes() = default;
  virtual void route(simgrid::kernel::routing::Route* into) = 0;
};

/// One engine a process; `routes` must outlive it.
class Engine {
 public:
  explicit Engine(FlowRoutes& routes);

  /// `units` are bytes times kGrain a second.
  simgrid::s4u::Link* add_link(const std::string& name, double units);
  /// A link whose capacity each flow gets for itself.
  simgrid::s4u::Link* add_flow_limit(const std::string& name, double units);
  simgrid::s4u::Host* add_host(const std::string& name);
  /// No more hosts and links.
  void seal();
  void run() { engine_->run(); }

 private:
  std::unique_ptr<simgrid::s4u::Engine> engine_;
  simgrid::s4u::NetZone* zone_ = nullptr;  // SimGrid owns it
};

}  // namespace foreduce
