// Who calls a collective: the loop of a benchmark adds its own time to what it measures.
#pragma once

#include <string>
#include <vector>

#include "models/profile.hpp"

namespace foreduce {

/// The loop that profiles are fitted to; it adds nothing.
inline constexpr const char* kUsualCaller = "nccl-tests";
/// torch.distributed from Python, which waits for every call.
inline constexpr const char* kTorch = "torch";

/// Who can call, the usual one first.
const std::vector<std::string>& caller_names();

/// What this caller adds to each call, whatever its size (models/callers.yaml). Throws
/// std::out_of_range for a name that is not among caller_names().
Seconds added_by(const std::string& caller);

/// "called from torch, which adds 19.50 us to every call (…)", with what is not known of it.
std::string words_on(const std::string& caller);

/// The profile where this caller starts each collective: what it adds is a part of the launch.
Profile called_from(const std::string& caller, Profile profile);

}  // namespace foreduce
