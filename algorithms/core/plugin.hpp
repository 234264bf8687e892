// Between the program and a plug-in: a shared object with algorithms, built outside this source
// tree against the installed headers. It has its own copy of what is in algorithms/core, so that
// the program need not export anything; the two share objects, whose form kPluginAbi names.
#pragma once

#include "algorithms/core/registry.hpp"

namespace foreduce {

/// The form of what both sides see: the headers that registry.hpp includes, and the standard
/// library. Whoever changes one of these headers so that an older plug-in would misread it raises
/// the number; a test notices. Older and newer plug-ins are refused, not misread.
#ifdef _LIBCPP_VERSION
inline constexpr const char* kPluginAbi = "9 (libc++)";
#else
inline constexpr const char* kPluginAbi = "9 (libstdc++)";
#endif

/// What a plug-in exports, as C functions. The first keeps its form for ever, since it says whether
/// the second may be called.
inline constexpr const char* kPluginAbiSymbol = "foreduce_plugin_abi";
inline constexpr const char* kPluginEnterSymbol = "foreduce_plugin_enter";
/// Returns the kPluginAbi that the plug-in was built with.
using PluginAbi = const char*();
/// Tells the plug-in where the program's algorithms are; returns its own.
using PluginEnter = const Registry*(Registry* of_program);

}  // namespace foreduce
