// A shared object that has nothing to do with foreduce.
extern "C" int answer() { return 42; }
