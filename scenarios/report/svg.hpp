// Pictures as SVG, without a library: measured beside predicted on logarithmic axes.
#pragma once

#include <string>
#include <vector>

namespace foreduce {

/// Predicted and measured bus bandwidth of one algorithm or source over message size.
struct Curve {
  struct Point {
    double bytes = 0, measured = 0, predicted = 0;  ///< bus bandwidths in bytes a second, positive
    double low = 0, high = 0;  ///< what bounds the predicted one; equal: no band is drawn
  };
  std::string name;           ///< in the legend, if there are several
  std::vector<Point> points;  ///< any order, one at least
};

/// Measured points as dots, predicted ones as a line with its interval as a band; a colour a curve.
std::string curves_svg(const std::string& title, std::vector<Curve> curves);

/// Dots of one colour.
struct Cloud {
  std::string name;
  struct Point {
    double x = 0, y = 0;      ///< to the right and upwards, positive
    std::string what = {};    ///< told where the pointer rests on it; empty: nothing
    std::string beside = {};  ///< written beside it, of points on a front
  };
  std::vector<Point> points;
};

/// Predicted values (up) over measured ones, around the diagonal, which is where they are equal;
/// dashed lines 20 % off it. `unit` stands behind the axes' numbers.
std::string scatter_svg(const std::string& title, const std::string& unit,
                        const std::vector<Cloud>& clouds);

/// Cost (USD, up) over time (hours), a line along `front`, and dashed ones at the most that is
/// wanted of either (0: none).
std::string front_svg(const std::string& title, const std::vector<Cloud>& clouds,
                      const std::vector<Cloud::Point>& front, double most_hours, double most_usd);

/// What make_folder says of a folder of pictures.
inline constexpr const char* kPictures = "pictures";

/// Writes a picture as `name` with everything but letters and digits made dashes, into a folder
/// that is made if missing. Throws InputError if it cannot be written.
void write_svg(const std::string& folder, const std::string& name, const std::string& svg);

}  // namespace foreduce
