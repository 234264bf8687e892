// What the module foreduce_simgrid.so exports: see loader.cpp, which calls it.
#include "sim/simulator.hpp"

extern "C" void foreduce_run_ranks(const foreduce::SimulatedNetwork* on,
                                   const std::function<void(foreduce::Transport&)>* rank_function,
                                   std::optional<foreduce::CollectiveResult>* result) {
  *result = foreduce::run_ranks(*on, *rank_function);
}
