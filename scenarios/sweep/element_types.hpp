// The words of element types and of collectives, as options and keys take them.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "algorithms/core/buffer.hpp"
#include "algorithms/core/collective.hpp"
#include "input/words.hpp"

namespace foreduce {

template <>
struct EnumWords<Type> {
  static constexpr EnumWord<Type> all[] = {{Type::f32, "f32"},
                                           {Type::f64, "f64"},
                                           {Type::f16, "f16"},
                                           {Type::bf16, "bf16"},
                                           {Type::i32, "i32"}};
};

/// As name_of() has them.
template <>
struct EnumWords<Collective> {
  static inline const auto all = [] {
    std::array<EnumWord<Collective>, kCollectives.size()> words{};
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = {kCollectives[i], name_of(kCollectives[i]).data()};
    return words;
  }();
};

/// The element type of our word for it, or of nccl-tests' and PyTorch's, in capitals or not;
/// nothing of another word.
std::optional<Type> type_of_word(const std::string& word);
/// The same. Throws InputError for another word.
Type type_named(const std::string& name);

}  // namespace foreduce
