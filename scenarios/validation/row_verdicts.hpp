// Whether the times of a table are normal, row by row and together.
#pragma once

#include <optional>
#include <set>

#include "scenarios/validation/diagnosis.hpp"
#include "scenarios/validation/suspect_fit.hpp"

namespace foreduce {

/// Gives every row what is expected of it, and its verdict. `expected`: of a healthy cluster, by
/// row.
void set_verdicts(CheckedTable& table, const std::vector<Expectation>& expected);

/// Whether no three sizes in a row, no fifth of all and not all of the large ones are slow, and
/// none is far slower. Rows of `but_for` do not count.
bool rows_are_normal(const CheckedTable& table, const std::vector<Expectation>& expected,
                     const std::set<std::size_t>& but_for = {});

/// A small size that is far slower out of place alone, where it is measured first: a first use,
/// which is no fault. Nothing where there is none.
std::optional<std::size_t> first_use(const CheckedTable& table);

/// Whether the first size alone is slow, of small ones: connections are made then.
bool starts_cold(const CheckedTable& table);

}  // namespace foreduce
