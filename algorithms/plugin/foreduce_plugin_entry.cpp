// What foreduce_add_algorithm adds to every plug-in: how the program finds its algorithms.
#include "algorithms/core/plugin.hpp"

#define FOREDUCE_EXPORT extern "C" __attribute__((visibility("default")))

FOREDUCE_EXPORT const char* foreduce_plugin_abi() { return foreduce::kPluginAbi; }

FOREDUCE_EXPORT const foreduce::Registry* foreduce_plugin_enter(foreduce::Registry* of_program) {
  const foreduce::Registry& own = foreduce::own_registry();
  foreduce::look_up_in(*of_program);
  return &own;
}
