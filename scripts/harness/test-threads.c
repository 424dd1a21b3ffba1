// Linked into every program that scripts/harness/test-threads builds: options for thread sanitizer.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

void __tsan_acquire(void *address);
void __tsan_release(void *address);

// Reports go to files: a test may ignore a program's exit status and output.
const char *__tsan_default_options(void) {
  return "log_path=" REPORTS " exitcode=0 external_symbolizer_path=" SYMBOLIZER;
}

// False positives, each with its reason. A symbol is named without its leading dollar sign, which would mean the end of the
// name.
const char *__tsan_default_suppressions(void) {
  return
      // A new connection, which has only constants, is handed to the task that waits for it. If its continuation is resumed
      // before the task suspends, an atomic variable of Swift's runtime orders the two, and that runtime is not compiled for
      // thread sanitizer.
      "race:s8Postgres0A10ConnectionC2id9pipelined13configuration6logger\n";
}

// On Linux the kernel hands a contended Mutex from one thread to another (FUTEX_LOCK_PI, FUTEX_UNLOCK_PI), called by two
// functions of the Synchronization library, which is not compiled for thread sanitizer. Without these replacements, which
// call the originals, every access behind a contended lock would be reported.
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
