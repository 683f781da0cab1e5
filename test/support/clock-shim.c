/*
 * Moves the wall clock of a server that is running, for tests: loaded before the C library (LD_PRELOAD), it adds the
 * milliseconds in the file that CLOCK_OFFSET_FILE names to the time of day. All other clocks go on as they are.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Read anew each time: the file is the only way in, and system calls cannot end up here again. */
static long long offset_ms(void)
{
    const char *name = getenv("CLOCK_OFFSET_FILE");
    char text[32];
    long file, length;

    if (name == NULL)
        return 0;
    file = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    length = syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    return strtoll(text, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    const long long second = 1000000000LL;
    int failed = (int)syscall(SYS_clock_gettime, clock, time);

    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long nanoseconds = time->tv_sec * second + time->tv_nsec + offset_ms() * 1000000LL;

        time->tv_sec = nanoseconds / second;
        time->tv_nsec = nanoseconds % second;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict day, void *restrict zone)
{
    struct timespec time;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &time);
    day->tv_sec = time.tv_sec;
    day->tv_usec = time.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into)
{
    struct timespec time;

    clock_gettime(CLOCK_REALTIME, &time);
    if (into != NULL)
        *into = time.tv_sec;
    return time.tv_sec;
}
