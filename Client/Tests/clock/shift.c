// Moves the wall clock of a process by the nanoseconds in the file of CLOCK_SHIFT_FILE (8 bytes), which a test changes while the
// process runs. The monotonic clocks stay as they are. Preloaded into receiptd, PostgreSQL and the simulated App Store, so
// that months pass in a test for all three at once.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *shift;

__attribute__((constructor)) static void open_shift(void) {
  const char *path = getenv("CLOCK_SHIFT_FILE");
  if (!path) return;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void *page = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) shift = page;
  close(file);
}

static long long now(clockid_t id) {
  struct timespec time;
  syscall(SYS_clock_gettime, id, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec + (shift ? *shift : 0);
}

int clock_gettime(clockid_t id, struct timespec *time) {
  if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE) return (int)syscall(SYS_clock_gettime, id, time);
  long long moved = now(id);
  time->tv_sec = moved / 1000000000LL;
  time->tv_nsec = moved % 1000000000LL;
  return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  (void)zone;
  long long moved = now(CLOCK_REALTIME);
  time->tv_sec = moved / 1000000000LL;
  time->tv_usec = moved % 1000000000LL / 1000;
  return 0;
}

time_t time(time_t *result) {
  time_t moved = now(CLOCK_REALTIME) / 1000000000LL;
  if (result) *result = moved;
  return moved;
}
