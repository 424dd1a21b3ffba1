// Linked into every program that scripts/test-threads builds: what thread sanitizer must know beforehand.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

void __tsan_acquire(void *address);
void __tsan_release(void *address);

// A race must not hide behind a program's exit status, nor its report in a pipe that nobody reads.
const char *__tsan_default_options(void) {
  return "log_path=" REPORTS " exitcode=0 external_symbolizer_path=" SYMBOLIZER;
}

// Reports that are no races, each with its reason. A symbol is named without its leading dollar sign, which would stand for
// the end of the name.
const char *__tsan_default_suppressions(void) {
  return
      // A connection is made, with nothing but constants, and given to the task that waits for it. Where the task's
      // continuation is resumed before the task has come to wait, the two meet in an atomic variable of Swift's
      // concurrency runtime, which is not compiled for thread sanitizer.
      "race:s8Postgres0A10ConnectionC2id7channel13configuration6logger\n";
}

// How Swift's Mutex is handed from one thread to another when two want it at once: on Linux by the kernel
// (FUTEX_LOCK_PI, FUTEX_UNLOCK_PI), on behalf of two functions of the Synchronization library, which is not compiled
// for thread sanitizer. Whatever stands behind a contended lock would be reported. The other paths are compiled into
// the program and seen. These functions stand in for the library's own, which they call.
#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context)) void *handle
#define LOCK_SLOW "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK_SLOW "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

// _MutexHandle._lockSlow(_: UInt32)
SWIFT void lock_slow(uint32_t thread, SELF) __asm__(LOCK_SLOW);
SWIFT void lock_slow(uint32_t thread, SELF) {
  SWIFT void (*next)(uint32_t, SELF) = (SWIFT void (*)(uint32_t, SELF))dlsym(RTLD_NEXT, LOCK_SLOW);
  next(thread, handle);
  __tsan_acquire(handle);
}

// _MutexHandle._unlockSlow()
SWIFT void unlock_slow(SELF) __asm__(UNLOCK_SLOW);
SWIFT void unlock_slow(SELF) {
  SWIFT void (*next)(SELF) = (SWIFT void (*)(SELF))dlsym(RTLD_NEXT, UNLOCK_SLOW);
  __tsan_release(handle);
  next(handle);
}
