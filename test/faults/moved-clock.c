/* Preloaded into one program: its time of day is off by the microseconds in MOVED_CLOCK_FILE. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static const volatile long long *offset;

__attribute__((constructor)) static void open_offset (void) {
  const char *name = getenv("MOVED_CLOCK_FILE");
  int file = name == NULL ? -1 : open(name, O_RDONLY);
  if (file < 0) abort();
  offset = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
  if (offset == MAP_FAILED) abort();
}

int gettimeofday (struct timeval *restrict time, void *restrict zone) {
  struct timespec now;
  (void) zone;
  clock_gettime(CLOCK_REALTIME, &now);
  long long micros = now.tv_sec * 1000000LL + now.tv_nsec / 1000 + (offset == NULL ? 0 : *offset);
  time->tv_sec = micros / 1000000;
  time->tv_usec = micros % 1000000;
  return 0;
}
