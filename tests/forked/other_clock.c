/* Shifts the clock of the date by CLOCK_SHIFT_S seconds, as on a machine whose clock was set; loaded with LD_PRELOAD.
 * The file system keeps its own time, as a file server does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long shift(void) {
  const char *seconds = getenv("CLOCK_SHIFT_S");
  return seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += shift();
  return result;
}
int gettimeofday(struct timeval *now, void *zone) {
  struct timespec exact;
  int result = clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return result;
}
time_t time(time_t *to) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (to) *to = exact.tv_sec;
  return exact.tv_sec;
}
