// Preloaded into the program by a test: from main() on, the n-th allocation or the n-th call that
// opens, reads, writes, synchronises or renames a file fails, as it would without memory or on a
// full disk. FAIL_ALLOCATION=n, FAIL_IO=n; FAULTS_REACHED names a file that exists afterwards if
// that call was reached.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long allocations_left, calls_left;
static const char* reached;

static void note(void) {
  if (!reached) return;
  const int file = (int)syscall(SYS_openat, AT_FDCWD, reached, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (file >= 0) syscall(SYS_close, file);
}

static int fails(atomic_long* left) {
  if (atomic_load(left) <= 0 || atomic_fetch_sub(left, 1) != 1) return 0;
  note();
  return 1;
}

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);

void* malloc(size_t n) {
  if (!fails(&allocations_left)) return __libc_malloc(n);
  errno = ENOMEM;
  return NULL;
}
void* calloc(size_t n, size_t each) {
  if (!fails(&allocations_left)) return __libc_calloc(n, each);
  errno = ENOMEM;
  return NULL;
}
void* realloc(void* at, size_t n) {
  if (!fails(&allocations_left)) return __libc_realloc(at, n);
  errno = ENOMEM;
  return NULL;
}

// What has no type is no file: an eventfd, by which threads wake each other, does not fail.
static int is_file(int file) {
  struct stat about;
  return fstat(file, &about) != 0 || (about.st_mode & S_IFMT) != 0;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL_IF_DUE(error)     \
  if (fails(&calls_left)) {    \
    errno = error;             \
    return -1;                 \
  }

ssize_t write(int file, const void* from, size_t n) {
  if (file == STDERR_FILENO) return (ssize_t)syscall(SYS_write, file, from, n);
  if (is_file(file)) FAIL_IF_DUE(ENOSPC)
  return (ssize_t)syscall(SYS_write, file, from, n);
}
ssize_t read(int file, void* into, size_t n) {
  if (is_file(file)) FAIL_IF_DUE(EIO)
  return (ssize_t)syscall(SYS_read, file, into, n);
}
int fsync(int file) {
  FAIL_IF_DUE(EIO)
  return (int)syscall(SYS_fsync, file);
}
int rename(const char* from, const char* to) {
  FAIL_IF_DUE(ENOSPC)
  return (int)syscall(SYS_rename, from, to);
}
int mkostemp(char* name, int flags) {
  FAIL_IF_DUE(ENOSPC)
  return NEXT(mkostemp)(name, flags);
}
int open(const char* name, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  FAIL_IF_DUE(EIO)
  return (int)syscall(SYS_openat, AT_FDCWD, name, flags, mode);
}

static int (*real_main)(int, char**, char**);
static int armed_main(int argc, char** argv, char** environment) {
  const char *allocation = getenv("FAIL_ALLOCATION"), *call = getenv("FAIL_IO");
  reached = getenv("FAULTS_REACHED");
  if (allocation) atomic_store(&allocations_left, atol(allocation));
  if (call) atomic_store(&calls_left, atol(call));
  return real_main(argc, argv, environment);
}

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void* stack_end) {
  int (*next)(int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void),
              void (*)(void), void*);
  *(void**)&next = dlsym(RTLD_NEXT, "__libc_start_main");
  real_main = main;
  return next(armed_main, argc, argv, init, fini, rtld_fini, stack_end);
}
