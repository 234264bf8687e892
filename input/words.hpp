// The words of an enum: one table beside each, by which it is read, written and listed.
//
//   enum class NvLinkKind : std::uint8_t { through_switch, mesh };
//   template <>
//   struct EnumWords<NvLinkKind> {
//     static constexpr EnumWord<NvLinkKind> all[] = {{NvLinkKind::through_switch, "switch"},
//                                                    {NvLinkKind::mesh, "mesh"}};
//   };
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace foreduce {

/// One value of an enum, and what files, options and reports call it.
template <class E>
struct EnumWord {
  E value;
  const char* text;
};

/// Specialised for each enum that has words: `all` are its values, in the order in which they are
/// offered to users.
template <class E>
struct EnumWords;

template <class T>
concept HasWords = std::is_enum_v<T> && requires {
  EnumWords<T>::all;
};

/// The word of a value.
template <HasWords E>
std::string to_text(E value) {
  for (const EnumWord<E>& word : EnumWords<E>::all)
    if (word.value == value) return word.text;
  throw std::logic_error("an enum's value has no word");
}

/// The value of a word; nothing for one that is not in the table.
template <HasWords E>
std::optional<E> value_named(std::string_view text) {
  for (const EnumWord<E>& word : EnumWords<E>::all)
    if (text == word.text) return word.value;
  return std::nullopt;
}

/// All words, in the table's order.
template <HasWords E>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  std::transform(std::begin(EnumWords<E>::all), std::end(EnumWords<E>::all),
                 std::back_inserter(names), [](const EnumWord<E>& word) { return word.text; });
  return names;
}

}  // namespace foreduce
