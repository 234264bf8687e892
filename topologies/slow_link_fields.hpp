// The keys of a slow PCIe link, which machine files and scenarios have in common.
#pragma once

#include "input/fields.hpp"
#include "topologies/machine.hpp"

namespace foreduce {

template <class Fields>
void describe(Fields& f, SlowLink& s) {
  f.required("device", s.device, "Whose link: gpu3, or nic0, as reports name it.");
  f.required("share", s.share, "Share of the bandwidth that the link should have, e.g. 50 %.",
             Limits::between(0.01, 1));
}

}  // namespace foreduce
