# foreduce_add_algorithm(my_ring my_ring.cpp ...): a plug-in my_ring.so, for foreduce --plugin my_ring.so
set(foreduce_plugin_entry ${CMAKE_CURRENT_LIST_DIR}/foreduce_plugin_entry.cpp CACHE INTERNAL "")
function(foreduce_add_algorithm name)
  add_library(${name} MODULE ${ARGN} ${foreduce_plugin_entry})
  target_link_libraries(${name} PRIVATE foreduce::plugin)
  target_compile_features(${name} PRIVATE cxx_std_20)
  set_target_properties(${name} PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()
