// A machine's cards over another network than EFA.
#include <string_view>
#include <vector>

#include "input/cited_data.hpp"
#include "input/fields.hpp"
#include "input/files.hpp"
#include "topologies/machine.hpp"

namespace foreduce {

namespace {

/// What a machine without EFA has between nodes.
struct Ena {
  Seconds latency;
  BytesPerSecond flow_limit, flow_limit_spread;
  int flows = 1;
};
template <class Fields>
void describe(Fields& f, Ena& e) {
  f.required("latency", e.latency, "of a message");
  f.required("flow_limit", e.flow_limit, "of one flow in a cluster placement group");
  f.required("flow_limit_spread", e.flow_limit_spread, "the same outside of one");
  f.required("flows", e.flows, "parallel flows a connection uses", Limits::at_least(1));
}

/// A source of a number that was replaced is none.
void forget_source(Machine& machine, std::string_view key) {
  std::erase_if(machine.citations, [&](const YamlFile::Citation& c) { return c.key == key; });
}

}  // namespace

Machine over_ena(Machine machine) {
  const auto ena = load_cited<Ena>(data_folder() / "topologies" / "ena.yaml");
  machine.nic.efa = 0;
  machine.nic.efa_peers.clear();
  machine.nic.fabric = NicFabric::tcp;
  machine.nic.gpudirect = false;
  machine.nic.latency = ena.latency;
  machine.nic.flow_limit = ena.flow_limit;
  machine.nic.flow_limit_spread = ena.flow_limit_spread;
  machine.nic.flows = ena.flows;
  forget_source(machine, "nic.latency");
  return machine;
}

Machine over_rdma(Machine machine) {
  machine.nic.efa = 0;
  machine.nic.efa_peers.clear();
  machine.nic.fabric = NicFabric::infiniband;
  machine.nic.message_overhead = Seconds{0};
  machine.nic.latency = Seconds{5e-6};
  forget_source(machine, "nic.latency");
  forget_source(machine, "nic.message_overhead");
  return machine;
}

}  // namespace foreduce
