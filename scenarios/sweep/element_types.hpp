// The names of element types, as options and keys take them.
#pragma once

#include <string>
#include <vector>

#include "algorithms/core/buffer.hpp"

namespace foreduce {

/// f32, f64, f16, bf16, i32: what options and keys offer.
const std::vector<std::string>& type_names();
/// The same of nccl-tests' and PyTorch's names for an element type, in capitals or not; "" of
/// another word.
std::string type_name_of(const std::string& word);
/// The element type of that name, as type_name_of() knows it. Throws InputError.
Type type_named(const std::string& name);

}  // namespace foreduce
