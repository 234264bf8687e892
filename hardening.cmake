# What makes a mistake of memory end the program rather than be of use to somebody: checked copies of libc, stack protector, assertions of
# the standard library, a position-independent program, and tables that are read-only once it runs. Builds with optimisation only:
# _FORTIFY_SOURCE needs it, and others have sanitizers. CONTRIBUTING.md says what it costs.
option(FOREDUCE_HARDENED "Harden release builds" ON)
if(FOREDUCE_HARDENED)
  set(optimised $<CONFIG:Release,RelWithDebInfo,MinSizeRel>)
  set(own $<AND:${optimised},$<COMPILE_LANGUAGE:C,CXX>>)
  add_compile_options("$<${own}:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2;-fstack-protector-strong>"
    "$<$<AND:${own},$<NOT:$<BOOL:$<TARGET_PROPERTY:POSITION_INDEPENDENT_CODE>>>>:-fPIE>")
  # Not where the property is set: simulations spend their time there, and meet no file before it was checked.
  add_compile_definitions($<$<AND:${optimised},$<COMPILE_LANGUAGE:CXX>,$<NOT:$<BOOL:$<TARGET_PROPERTY:FOREDUCE_WITHOUT_ASSERTIONS>>>>:_GLIBCXX_ASSERTIONS>)
  add_link_options("$<${optimised}:LINKER:-z,relro,-z,now>"
    "$<$<AND:${optimised},$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>>:-pie>")
endif()
