#pragma once

#include <string>

#include "scenarios/report/check_words.hpp"
#include "scenarios/validation/diagnosis.hpp"

namespace foreduce::test {

/// What `check` remarks on a table, in one string.
inline std::string remarks_of(const CheckedTable& t) {
  std::string all;
  for (const Remark& remark : t.remarks) all += (all.empty() ? "" : "; ") + remark_words(remark);
  return all;
}

}  // namespace foreduce::test
