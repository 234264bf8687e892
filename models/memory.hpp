// What training keeps in a GPU's memory.
#pragma once

#include "models/workload.hpp"

namespace foreduce {

/// What each GPU keeps of a model that is not sharded: weights, gradients and the optimizer's
/// states. Activations come on top and depend on more than a workload says. Without `per_parameter`
/// as much as Adam needs.
Bytes training_state(const Workload& workload, std::optional<Bytes> per_parameter = std::nullopt);

/// Whether backward computes the activations again instead of keeping them.
enum class Activations : std::uint8_t { kept, recomputed };

/// What forward must keep of a micro-batch for backward, at least. Each matrix product and
/// convolution keeps its output and what follows it: 4 bytes an element in 16 bits, 8 in 32. For a
/// transformer these are 36 bytes a token, layer and hidden unit; Korthikanti et al. (Reducing
/// Activation Recomputation, MLSys 2023, section 4.1) count 34. Recomputed, 2 of the 34 stay. 0
/// where the tensors do not tell, as for `blocks`.
Bytes activations(const Workload& workload, const std::string& sample, const std::string& precision,
                  int batch, Activations how);

}  // namespace foreduce
