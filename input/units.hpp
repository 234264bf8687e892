// Units are types inside and text outside. A bare number where a unit is due is an error; KB and
// KiB differ.
#pragma once

#include <compare>
#include <string>
#include <vector>

namespace foreduce {

/// A physical quantity in its base unit; only quantities of one kind can be added or compared.
template <class Kind>
struct Quantity {
  double value = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(double base_units) : value(base_units) {}
  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity{a.value + b.value};
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity{a.value - b.value};
  }
  friend constexpr Quantity operator*(double k, Quantity a) { return Quantity{k * a.value}; }
  friend constexpr Quantity operator*(Quantity a, double k) { return k * a; }
  friend constexpr Quantity operator/(Quantity a, double k) { return Quantity{a.value / k}; }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value / b.value; }
  constexpr Quantity& operator+=(Quantity b) {
    value += b.value;
    return *this;
  }
};

using Seconds = Quantity<struct SecondsKind>;
using Bytes = Quantity<struct BytesKind>;
using BytesPerSecond = Quantity<struct BytesPerSecondKind>;
using Flop = Quantity<struct FlopKind>;
using FlopPerSecond = Quantity<struct FlopPerSecondKind>;
using DollarsPerHour = Quantity<struct DollarsPerHourKind>;
using Dollars = Quantity<struct DollarsKind>;
using Count = Quantity<struct CountKind>;  ///< of so many things that nobody writes all digits

constexpr Seconds operator/(Bytes b, BytesPerSecond r) { return Seconds{b.value / r.value}; }
constexpr Seconds operator/(Flop f, FlopPerSecond r) { return Seconds{f.value / r.value}; }
constexpr Dollars operator*(DollarsPerHour p, Seconds s) {
  return Dollars{p.value * s.value / 3600};
}
constexpr Bytes operator*(BytesPerSecond r, Seconds s) { return Bytes{r.value * s.value}; }

/// "12.5 GB/s", "5 us", "25 MiB": the shortest text that people read easily (four digits).
std::string to_text(Seconds);
std::string to_text(Bytes);
std::string to_text(BytesPerSecond);
std::string to_text(FlopPerSecond);
std::string to_text(DollarsPerHour);
std::string to_text(Dollars);
std::string to_text(Count);

/// One spelling of a unit and what it is worth in base units.
struct Unit {
  const char* spelling;
  double worth;
  bool offered = true;  ///< whether messages name it; other spellings are accepted silently
};
/// How a kind of quantity is written. Ends with a null spelling; begins with an empty one where a
/// bare number will do.
template <class Q>
struct UnitsOf;
template <>
struct UnitsOf<Seconds> {
  static constexpr const char* kind = "time";
  static const Unit table[];
};
template <>
struct UnitsOf<Bytes> {
  static constexpr const char* kind = "size";
  static const Unit table[];
};
template <>
struct UnitsOf<BytesPerSecond> {
  static constexpr const char* kind = "rate";
  static const Unit table[];
};
template <>
struct UnitsOf<Flop> {
  static constexpr const char* kind = "amount of arithmetic";
  static const Unit table[];
};
template <>
struct UnitsOf<FlopPerSecond> {
  static constexpr const char* kind = "compute rate";
  static const Unit table[];
};
template <>
struct UnitsOf<DollarsPerHour> {
  static constexpr const char* kind = "price";
  static const Unit table[];
};
template <>
struct UnitsOf<Count> {
  static constexpr const char* kind = "large number";
  static const Unit table[];
};
template <>
struct UnitsOf<Dollars> {
  static constexpr const char* kind = "sum of money";
  static const Unit table[];
};

/// Values that no sane input exceeds; larger ones are slips (a wrong unit, a key held down).
template <class Q>
constexpr double kMostOf = 1e18;
template <>
inline constexpr double kMostOf<Seconds> = 1e9;
template <>
inline constexpr double kMostOf<Bytes> = 1e15;
template <>
inline constexpr double kMostOf<BytesPerSecond> = 1e15;
template <>
inline constexpr double kMostOf<Flop> = 1e24;
template <>
inline constexpr double kMostOf<FlopPerSecond> = 1e20;
template <>
inline constexpr double kMostOf<DollarsPerHour> = 1e6;
template <>
inline constexpr double kMostOf<Dollars> = 1e12;

/// Values above zero that no sane input is below, likewise.
template <class Q>
constexpr double kLeastOf = 0;
template <>
inline constexpr double kLeastOf<BytesPerSecond> = 1;
template <>
inline constexpr double kLeastOf<FlopPerSecond> = 1e6;
template <>
inline constexpr double kLeastOf<DollarsPerHour> = 1e-6;

/// Whether such numbers may have commas between thousands: "$2,500". Of others a comma may be meant
/// as a decimal point.
bool groups_thousands(const Unit* table);
/// "ns, us, ms, s": what a message offers.
std::string spellings(const Unit* table);

/// The shortest number and unit that read back as exactly so many base units: "1 KiB" of 1024.
std::string exact_text(double base_units, const Unit* table);
/// Reads "25 MiB", or "$500" for "500 $", into base units. On failure returns false and says what
/// is wrong in `why`.
bool parse_quantity(const std::string& text, const Unit* table, const char* kind,
                    double& base_units, std::string& why);
/// Reads a rising range of sizes, "8B:1GiB:x4" or "8B..1GiB:x4", which doubles without a factor;
/// one size is a range of one. On failure returns false and says what is wrong in `why`.
bool parse_size_range(const std::string& text, std::vector<Bytes>& sizes, std::string& why);
/// Reads "3.20 EUR/h", "$3.20/h" or "3.20 €/hour" by the table of prices, "900 EUR", "€900" or
/// "4M EUR" by that of sums: the amount, in units of the currency, and the currency's ISO 4217
/// code. On failure returns false and says what is wrong in `why`.
bool parse_money(const std::string& text, const Unit* table, const char* kind, double& amount,
                 std::string& currency, std::string& why);
/// A whole decimal number, nothing before or after it, no leading zeros.
bool parse_number(const std::string& text, double& value, std::string& why);

}  // namespace foreduce
