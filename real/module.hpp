// Modules: parts of foreduce that need a library which not every machine has, or which loads
// slowly. They are shared objects beside the program, loaded when they are first needed.
#pragma once

#include <cstdint>
#include <string>

namespace foreduce {

/// Whether the module "foreduce_<name>.so" was built.
bool has_module(const std::string& name);

/// Whose symbols a module sees first: those of the program, or those of the libraries that it is
/// linked to.
enum class SymbolLookup : std::uint8_t { program_first, module_first };

/// The address of what the module exports as `symbol`. Throws TransportError if the module was not
/// built or does not load.
void* module_symbol(const std::string& name, const char* symbol, SymbolLookup lookup);

}  // namespace foreduce
