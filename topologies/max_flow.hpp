// The most that can flow through a network of links, and the cut that says so.
#pragma once

#include <cstddef>
#include <memory>

namespace foreduce {

/// A network between numbered vertices. Widths are of one direction, in any unit.
/// Boykov & Kolmogorov's algorithm, as Boost.Graph has it.
class MaxFlow {
 public:
  explicit MaxFlow(std::size_t vertices);
  ~MaxFlow();
  MaxFlow(MaxFlow&&) noexcept;
  MaxFlow& operator=(MaxFlow&&) noexcept;

  /// Adds a link from `a` to `b`; returns its number.
  std::size_t connect(std::size_t a, std::size_t b, double width);
  void set_width(std::size_t link, double width);
  /// The most that can flow from `source` to `sink`.
  double between(std::size_t source, std::size_t sink);
  /// Whether the vertex is on the source's side of the narrowest cut of the last flow; of several
  /// such cuts the one nearest to the source.
  bool beside_source(std::size_t vertex) const;

 private:
  struct Network;
  std::unique_ptr<Network> network_;
};

}  // namespace foreduce
