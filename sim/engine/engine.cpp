#include "sim/engine/engine.hpp"

#include <signal.h>
#include <simgrid/kernel/routing/NetPoint.hpp>

#include <array>

#include "sim/collective.hpp"

// g++ has a macro for it.
#ifdef __has_feature
#define FOREDUCE_CLANGS_THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#define FOREDUCE_CLANGS_THREAD_SANITIZER 0
#endif

namespace foreduce {
namespace {

namespace s4u = simgrid::s4u;
namespace routing = simgrid::kernel::routing;

class FlowZone final : public routing::NetZoneImpl {
 public:
  FlowZone(FlowRoutes* routes, const std::string& name) : NetZoneImpl(name), routes_(routes) {}
  void get_local_route(const routing::NetPoint*, const routing::NetPoint*, routing::Route* into,
                       double*) override {
    routes_->route(into);  // the latency follows the bytes, see NetworkModel::sent
  }

 private:
  FlowRoutes* routes_;
};

/// SimGrid's own handlers print a backtrace. The parent of a simulation says what happened to it.
class KeptSignals {
 public:
  KeptSignals() {
    for (std::size_t k = 0; k < kKept.size(); ++k) ::sigaction(kKept[k], nullptr, &before_[k]);
  }
  ~KeptSignals() {
    for (std::size_t k = 0; k < kKept.size(); ++k) ::sigaction(kKept[k], &before_[k], nullptr);
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  static constexpr std::array<int, 2> kKept{SIGSEGV, SIGBUS};
  std::array<struct sigaction, 2> before_{};
};

}  // namespace

Engine::Engine(FlowRoutes* routes) {
  static char name[] = "foreduce", quiet[] = "--log=root.app:file:/dev/null";
  char* arguments[] = {name, quiet, nullptr};
  int count = 2;
  {
    const KeptSignals kept;
    engine_ = std::make_unique<s4u::Engine>(&count, arguments);
  }
  for (const EngineSetting& s : engine_settings())
    s4u::Engine::set_config(std::string(s.name) + ":" + s.value);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    FOREDUCE_CLANGS_THREAD_SANITIZER
  s4u::Engine::set_config(
      "contexts/factory:thread");  // the sanitizers do not know SimGrid's own stacks
#endif
  s4u::Engine::set_config(
      "contexts/stack-size:256");  // KiB; a schedule is posted without recursion
  zone_ = (new FlowZone(routes, "cluster"))->get_iface();
  here_ = zone_->create_host("here", 1e9)->seal();
  there_ = zone_->create_host("there", 1e9)->seal();
  s4u::Engine::on_deadlock_cb([this] {
    if (deadlocked_) deadlocked_();
  });
}

Engine& Engine::of_ranks() {
  // Never deleted: at exit SimGrid's own static objects may be gone already.
  static Engine* const engine = [] {
    auto* made = new Engine(nullptr);
    made->seal();
    return made;
  }();
  return *engine;
}

s4u::Link* Engine::add_link(const std::string& name, double units) {
  return zone_->create_link(name, units)->seal();
}

s4u::Link* Engine::add_flow_limit(const std::string& name, double units) {
  return zone_->create_link(name, units)
      ->set_sharing_policy(s4u::Link::SharingPolicy::FATPIPE)
      ->seal();
}

void Engine::set_stack_guard(StackGuard guard) {
  if (guard == stack_guard_) return;
  s4u::Engine::set_config(guard == StackGuard::page ? "contexts/guard-size:1"
                                                    : "contexts/guard-size:0");
  stack_guard_ = guard;
}

void Engine::seal() { zone_->seal(); }

void Engine::run(std::function<void()> deadlocked) {
  deadlocked_ = std::move(deadlocked);
  engine_->run();
}

}  // namespace foreduce
