// Files of our own that foreduce writes from what others describe: a workload, a machine.
#pragma once

#include <string>
#include <vector>

#include "models/workload.hpp"
#include "scenarios/report/table.hpp"
#include "topologies/imported_machine.hpp"

namespace foreduce {

/// A workload file that loads as `workload`. `remarks` are the comments at its head, a sentence or
/// a few each. Its tensors stand in the file itself, or as the shape that they are made from.
std::string workload_file(const Workload& workload, const std::vector<std::string>& remarks);

/// A machine file that loads as `imported.machine`. Every number cites "dump", with how it tells
/// it, or "assumed", with the machine that it is taken from.
std::string machine_file(const ImportedMachine& imported, const std::string& source);

/// What was found in a dump, and how it differs from the machine that told the rest. `file`: where
/// the machine file is.
std::string import_summary(const ImportedMachine& imported, const std::string& file,
                           const View& view);

/// A comment of a file in YAML: lines of at most 98 letters, each after a #.
std::string file_comment(const std::string& text);

}  // namespace foreduce
