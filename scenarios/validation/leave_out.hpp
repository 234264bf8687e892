// `calibrate --reference --leave-out`: how well a fabric or a GPU is predicted that no fit has
// seen.
#pragma once

#include <cstdint>

#include "scenarios/validation/cross_validation.hpp"

namespace foreduce {

/// What is held out at a time.
enum class HeldOut : std::uint8_t {
  fabric,  ///< everything between nodes over efa, efa-host, tcp, infiniband or roce
  gpu      ///< everything on one GPU, or on those that share a profile: V100, H100 and H200
};

/// Predicts the fit's published points of each group by profiles that were fitted to the other
/// groups.
///
/// Without a fabric, its GPUs' profiles are fitted to one node and to other fabrics. The nearest
/// other fabric stands in for it: InfiniBand and RoCE for each other and for EFA that reads GPU
/// memory; EFA and TCP through host memory for each other. Without a GPU, the profile of the GPU
/// stands in whose NVLink and memory are nearest in bandwidth, and the fabric is fitted to the
/// other GPUs. Of `options`, `profiles` and `folder` are not used. `notes` of the result name the
/// machines for which nothing is left to fit to.
CrossValidation leave_groups_out(const CrossValidationOptions& options, HeldOut what);

}  // namespace foreduce
