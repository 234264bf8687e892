// What tests of devices share: data whose sums depend on the order of reducing, and runs of devices
// beside host memory.
#pragma once

#include <cstdint>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "real/measure.hpp"
#include "real/thread_backend.hpp"
#include "tests/support/machines.hpp"

namespace foreduce::test {

inline constexpr Type kTypes[] = {Type::f32, Type::f64, Type::f16, Type::bf16, Type::i32};
inline constexpr Op kOps[] = {Op::sum, Op::min, Op::max};

/// Numbers whose sum depends on the order of reducing.
inline std::vector<std::byte> numbers(std::size_t count, Type type, unsigned seed) {
  std::minstd_rand random(seed + 1);
  std::vector<std::byte> data(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) {
    const auto any = static_cast<std::uint32_t>(random());  // 31 bits
    // Of both signs, any mantissa and sixteen exponents, so that most sums are rounded.
    const auto f = static_cast<float>(
        std::ldexp(static_cast<int>(any & 0xffffff) - 0x800000, static_cast<int>(any >> 27) - 31));
    const double value = f * (1 + 1e-9 * any);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &f, sizeof bits);
    std::byte* to = data.data() + i * size_of(type);
    if (type == Type::f64) std::memcpy(to, &value, 8);
    if (type == Type::f32) std::memcpy(to, &f, 4);
    if (type == Type::i32) std::memcpy(to, &bits, 4);
    // Any finite f16.
    const auto half = static_cast<std::uint16_t>(
        type == Type::bf16 ? bits >> 16 : (any & 0x7fff) % 0x7c00 | (any >> 15 & 0x8000));
    if (size_of(type) == 2) std::memcpy(to, &half, 2);
  }
  return data;
}

using Bits = std::vector<std::vector<std::byte>>;

/// The workers' results; `device` is null for host memory.
inline Bits reduced(const Algorithm& algorithm, const Layout& layout, std::size_t count, Type type,
                    Op op, std::function<std::unique_ptr<RankDevice>(int)> device) {
  Bits data;
  std::vector<Buffer> views;
  for (int r = 0; r < layout.size(); ++r)
    data.push_back(numbers(count, type, static_cast<unsigned>(r)));
  for (auto& d : data) views.push_back({d.data(), 0, count, type});
  const Plan plan = with_defaults(algorithm, {.segments = 3, .channels = 1, .inner = "ring"},
                                  layout, count * size_of(type));
  run_on_threads(algorithm, layout, views, op, plan,
                 {.timeout_s = 60, .record = false, .device = std::move(device)});
  data.resize(static_cast<std::size_t>(layout.workers));  // a server's workspace is no result
  return data;
}

/// Expects that devices give the same bits as threads with host memory.
inline void expect_same_as_threads(const Algorithm& algorithm,
                                   const std::function<std::unique_ptr<RankDevice>(int)>& device,
                                   const std::vector<std::size_t>& counts) {
  int ran = 0;
  for (const int ranks : {2, 4, 8})
    for (const int per_node : std::set{1, ranks / 2, ranks}) {
      Layout layout = Layout::uniform(ranks / per_node, per_node, algorithm.uses_servers ? 1 : 0);
      layout.switch_reduces = true;
      if (unsupported_reason(algorithm, layout, {.segments = 3, .channels = 1, .inner = "ring"}))
        continue;
      ++ran;
      for (const std::size_t count : counts)
        for (const Type type : kTypes) {
          const Op op = kOps[count % 3];
          ASSERT_EQ(reduced(algorithm, layout, count, type, op, device),
                    reduced(algorithm, layout, count, type, op, nullptr))
              << ranks << " ranks, " << per_node << " a node, " << count << " elements of type "
              << static_cast<int>(type) << ", op " << static_cast<int>(op);
        }
    }
  EXPECT_GT(ran, 0);
}

/// The message of the exception that `run` throws, or "(none)".
inline std::string failure_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "(none)";
}

using DeviceOf = std::unique_ptr<RankDevice> (*)(int rank);

/// One collective of a run.
struct DeviceTrial {
  const Algorithm* algorithm = nullptr;
  std::size_t count = 0;
  Type type = Type::f32;
};

/// One process of a run over loopback TCP whose workers have devices. Returns how many elements
/// have a wrong sum.
inline double wrong_here(const ProcessPlace& place, int each, const std::vector<DeviceTrial>& asked,
                         const OfiOptions& network, DeviceOf device, const std::string& path) {
  SessionOptions options;
  options.network = network;
  options.ranks_per_process = each;
  for (const DeviceTrial& t : asked)
    if (t.algorithm->uses_servers) options.servers_per_process = 1;
  std::vector<int> numbers, due;
  options.device = [&](int rank, int local_rank) {
    numbers.push_back(local_rank);
    return device(rank);
  };
  Session session(place, options);
  for (int i = 0; i < each; ++i) due.push_back(place.process * each + i);
  EXPECT_EQ(numbers, due);  // all processes share the devices of this machine
  std::vector<Trial> trials;
  for (const auto& [algorithm, count, type] : asked) {
    const Layout& layout = algorithm->uses_servers ? session.everyone() : session.workers();
    const Plan plan = with_defaults(*algorithm, {.segments = 2, .channels = 1, .inner = "ring"},
                                    layout, count * size_of(type));
    trials.push_back({identifier(*algorithm), algorithm, nullptr, plan, count, type});
  }
  double wrong = 0;
  for (const TrialResult& r :
       measure(session, trials, {.warmup = 1, .iterations = 2, .check = true})) {
    const double here = r.in_place.wrong + r.out_of_place.wrong;
    if (here != 0)
      std::fprintf(stderr, "%s: %g of %zu elements are wrong\n", r.trial.name.c_str(), here,
                   r.trial.count);
    wrong += here;
  }
  EXPECT_EQ(session.to_network(),
            network.devices != DeviceKind::system ? "through the host" : path);
  session.leave();
  return wrong;
}

/// The worst status of so many processes: 0 if all sums are right and all devices are idle at the
/// end, 4 after an exception. `path` is what Session::to_network() must return if the network uses
/// device memory.
inline int status_of(int processes, int each, const std::vector<DeviceTrial>& trials,
                     const OfiOptions& network, DeviceOf device,
                     const std::string& path = "FI_HMEM") {
  return spawn(processes, [&](const ProcessPlace& place) {
    try {
      const double wrong = wrong_here(place, each, trials, network, device, path);
      return wrong == 0 && !testing::Test::HasFailure() ? 0 : 3;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      return 4;
    }
  });
}

}  // namespace foreduce::test
