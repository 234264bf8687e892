// A plug-in of another time.
#define FOREDUCE_EXPORT extern "C" __attribute__((visibility("default")))

FOREDUCE_EXPORT const char* foreduce_plugin_abi() { return "0 (libstdc++)"; }
FOREDUCE_EXPORT const void* foreduce_plugin_enter(void*) { return nullptr; }
