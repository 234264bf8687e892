#include <xbt/base.h>  // without it the next one is no C++

#include <simgrid/version.h>

#include <string>

#include "sim/collective.hpp"

namespace foreduce {
namespace {

constexpr EngineSetting kSettings[] = {
    {"network/model", "CM02", "max-min fair flows; no TCP slow start"},
    {"network/optim", "Lazy", "only what changed is computed anew"},
    {"network/latency-factor", "1", "SimGrid's default for TCP is 13.01"},
    {"network/bandwidth-factor", "1", "SimGrid's default for TCP is 0.97"},
    {"network/weight-S", "0", "no share lost to small latencies"},
    {"network/TCP-gamma", "0", "no window limit"},
    {"network/crosstraffic", "0", "no acknowledgements on the way back"},
    {"network/loopback-lat", "0", "no loopback is used"},
    {"surf/precision", "1e-14", "seconds; the default of 1e-9 merges events of short messages"},
    {"maxmin/precision", "1e-9", "relative; the default of 1e-5 lets equal flows differ"},
};

}  // namespace

const char* simulator_name() {
  static const std::string name = "SimGrid " + std::to_string(SIMGRID_VERSION_MAJOR) + "." +
                                  std::to_string(SIMGRID_VERSION_MINOR);
  return name.c_str();
}

std::span<const EngineSetting> engine_settings() { return kSettings; }

}  // namespace foreduce
