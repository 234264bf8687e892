// In a program that SimGrid is linked to there is nothing to load.
#include "sim/simulator.hpp"

namespace foreduce {

void load_simulator() {}

const std::string& simulator_build_id() {
  static const std::string none;
  return none;
}

}  // namespace foreduce
