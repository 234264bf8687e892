// Where larger collectives, or those on more nodes, take less time, or larger ones far more.
#pragma once

#include "scenarios/report/words.hpp"

namespace foreduce {

/// Where a larger collective, or one on more nodes, takes less time: by the library's own choice,
/// which a reader would take for a mistake of the model, or by the model's.
/// Also where twice the bytes take four times as long or more, for the library chooses anew.
std::string falls_lines(const Json& points, const View& view);

/// The same for programs: each answered point gets `faster_at_bytes` and `faster_on_nodes`, the
/// next larger size and number of nodes of its curve if that takes less time, else null.
void mark_falls(Json& points);

}  // namespace foreduce
