// Parts of foreduce that need a library which not every machine has, or which takes its time to load: shared objects beside the
// program, loaded when they are asked for.
#pragma once

#include <string>

namespace foreduce {

/// Whether the module "foreduce_<name>.so" was built.
bool has_module(const std::string& name);

/// The address of what the module exports as `symbol`. `deep`: it sees its own library's symbols before the program's.
/// Throws TransportError if it was not built or does not load.
void* module_symbol(const std::string& name, const char* symbol, bool deep);

}  // namespace foreduce
