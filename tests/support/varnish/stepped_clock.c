/*
 * Real time plus what a test has added, for a process that loads this first (LD_PRELOAD).
 *
 * The file that STEPPED_CLOCK names holds the difference: 8 bytes, in nanoseconds. A step counts at
 * once in all processes that map it. Nothing here allocates: varnishd's allocator reads the clock
 * before it works, which is why libfaketime can't be used with it. The monotonic clock stays as it is.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t second = 1000000000;
static volatile const int64_t *ahead;

__attribute__((constructor)) static void map(void) {
    const char *path = getenv("STEPPED_CLOCK");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void *found = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED)
        ahead = found;
}

static void add(struct timespec *to, int64_t nanoseconds) {
    int64_t sum = to->tv_sec * second + to->tv_nsec + nanoseconds;
    to->tv_sec = sum / second;
    to->tv_nsec = sum % second;
}

int clock_gettime(clockid_t clock, struct timespec *to) {
    int failed = (int)syscall(SYS_clock_gettime, clock, to);
    if (failed == 0 && ahead != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        add(to, *ahead);
    return failed;
}

int gettimeofday(struct timeval *to, void *zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    to->tv_sec = now.tv_sec;
    to->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to != NULL)
        *to = now.tv_sec;
    return now.tv_sec;
}

/* The kernel waits by the real clock. varnishd's condition variables all use it. */
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    struct timespec real = *until;
    if (ahead != NULL)
        add(&real, -*ahead);
    return pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, &real);
}
