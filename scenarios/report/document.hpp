// What a report says, in the order of reading: titles, lines and tables, written as text, as
// Markdown or as a page.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "scenarios/report/table.hpp"

namespace foreduce {

/// What some lines are for. Text writes them all alike; a page sets them apart.
enum class Role : std::uint8_t {
  setting,      ///< what all rows have in common
  answer,       ///< the answer in sentences
  notes,        ///< what a reader must know to act on the table
  definitions,  ///< definitions and sources
  plain         ///< laid out for the screen
};

class Document {
 public:
  struct Title {
    std::string text;
  };
  struct Lines {
    Role role = Role::plain;
    std::string text;  ///< whole lines, or nothing
  };
  using Block = std::variant<Title, Lines, Table>;

  Document() = default;
  /// One text that is laid out already.
  Document(std::string text) { lines(Role::plain, std::move(text)); }

  Document& title(std::string text);
  Document& lines(Role role, std::string text);
  Document& table(Table table);
  /// An empty line, where there are lines.
  Document& gap();

  const std::vector<Block>& blocks() const { return blocks_; }
  /// As text or Markdown, as `view` has it.
  std::string text(const View& view) const;

 private:
  std::vector<Block> blocks_;
};

}  // namespace foreduce
