#include "scenarios/report/document.hpp"

#include "input/printable.hpp"

namespace foreduce {

Document& Document::title(std::string text) {
  blocks_.emplace_back(Title{printable(text, text.size())});
  return *this;
}

Document& Document::lines(Role role, std::string text) {
  if (!text.empty()) blocks_.emplace_back(Lines{role, std::move(text)});
  return *this;
}

Document& Document::table(Table table) {
  blocks_.emplace_back(std::move(table));
  return *this;
}

Document& Document::gap() { return lines(Role::plain, "\n"); }

std::string Document::text(const View& view) const {
  std::string all;
  for (const Block& block : blocks_) {
    if (const auto* title = std::get_if<Title>(&block))
      all += wrapped((view.format == Format::markdown ? "## " : "") + title->text, view, 2);
    else if (const auto* lines = std::get_if<Lines>(&block)) all += lines->text;
    else all += std::get<Table>(block).text(view);
  }
  return all;
}

}  // namespace foreduce
