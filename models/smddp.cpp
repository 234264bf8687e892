#include "models/smddp.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "input/fields.hpp"
#include "input/files.hpp"

namespace foreduce {

template <class Fields>
void describe(Fields& f, SmddpCollective& c) {
  f.required("algorithm", c.algorithm, "");
  f.required("inner", c.inner, "");
  f.required("instances", c.instances, "");
}
template <class Fields>
void describe(Fields& f, Smddp& s) {
  f.required("source", s.source, "");
  f.required("all_reduce", s.all_reduce, "");
  f.required("all_gather", s.all_gather, "");
  f.required("multiprocessors", s.multiprocessors, "", Limits::between(1, 1000));
}

const Smddp& smddp() {
  static const Smddp all = [] {
    Smddp s;
    YamlFile file = YamlFile::load(data_folder() / "models" / "smddp.yaml");
    read_file(file, s);
    return s;
  }();
  return all;
}

std::string smddp_unsupported(const Machine& machine, Collective collective) {
  const Smddp& s = smddp();
  const std::string& instance = machine.type();
  const auto has = [&](const SmddpCollective& c) {
    return std::find(c.instances.begin(), c.instances.end(), instance) != c.instances.end();
  };
  const SmddpCollective* own = s.of(collective);
  const std::string supported =
      fmt::format("SMDDP supports {}", fmt::join(s.all_gather.instances, " and "));
  if (machine.fabric() == Fabric::rdma)
    return fmt::format("{} of EC2, and {} has {} between nodes", supported, machine.name,
                       machine.nic.fabric ? to_text(*machine.nic.fabric) : "RDMA");
  if (own ? has(*own) : has(s.all_gather)) return "";
  return has(s.all_reduce)
             ? fmt::format("{}; on {} it had an all-reduce only, which AWS has retired", supported,
                           instance)
             : supported;
}

}  // namespace foreduce
