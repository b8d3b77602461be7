/* Faults at chosen system calls, for benchmarks/faults.py: loaded before the C library (LD_PRELOAD), it counts the calls
 * that name or use files below a directory, and lets the chosen ones fail, write less than asked, or end the process. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ONCE, FROM_THEN_ON, SHORT, DIE };
enum { WRITING = 1, READING = 2, NAMES = 4, SYNC = 8, MAPPING = 16, OPENING = 32, LOOKING = 64 };

static char below[4096];
static atomic_int armed;
static atomic_long counted;
static long chosen;
static int code, mode;
static unsigned kinds;
static char failed[32];

void fault_arm(const char *folder, long at, int error, int how, unsigned which) {
    snprintf(below, sizeof below, "%s", folder);
    chosen = at, code = error, mode = how, kinds = which, failed[0] = 0;
    atomic_store(&counted, 0);
    atomic_store(&armed, 1);
}

long fault_disarm(void) {
    atomic_store(&armed, 0);
    return atomic_load(&counted);
}

const char *fault_name(void) { return failed; }

static int inside(const char *path) { return path && strncmp(path, below, strlen(below)) == 0; }

static int inside_fd(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return inside(path);
}

/* 0: go on; 1: fail with errno set; 2: do half of it. */
static int fault(unsigned kind, const char *name) {
    if (!(kind & kinds)) return 0;
    long at = atomic_fetch_add(&counted, 1);
    if (mode == FROM_THEN_ON ? at < chosen : at != chosen) return 0;
    if (!failed[0]) snprintf(failed, sizeof failed, "%s", name);
    if (mode == DIE) _exit(99);
    if (mode == SHORT) return 2;
    errno = code;
    return 1;
}

#define ON_PATH(kind, name, path) (atomic_load(&armed) && inside(path) ? fault(kind, name) : 0)
#define ON_FD(kind, name, fd) (atomic_load(&armed) && inside_fd(fd) ? fault(kind, name) : 0)
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                                                                       \
    int name(const char *path, int flags, ...) {                                                         \
        va_list rest;                                                                                    \
        va_start(rest, flags);                                                                           \
        mode_t bits = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                          \
        va_end(rest);                                                                                    \
        if (ON_PATH(flags & (O_CREAT | O_WRONLY | O_RDWR) ? WRITING : OPENING, #name, path) == 1) return -1; \
        return REAL(name)(path, flags, bits);                                                            \
    }
OPEN(open)
OPEN(open64)

#define TRANSFER(name, kind, pointer)                                                \
    ssize_t name(int fd, pointer buffer, size_t size) {                              \
        int what = ON_FD(kind, #name, fd);                                           \
        if (what == 1) return -1;                                                    \
        return REAL(name)(fd, buffer, what == 2 && size > 1 ? size / 2 : size);      \
    }
TRANSFER(write, WRITING, const void *)
TRANSFER(read, READING, void *)

#define TRANSFER_AT(name, kind, pointer, offset_type)                                    \
    ssize_t name(int fd, pointer buffer, size_t size, offset_type at) {                  \
        int what = ON_FD(kind, #name, fd);                                               \
        if (what == 1) return -1;                                                        \
        return REAL(name)(fd, buffer, what == 2 && size > 1 ? size / 2 : size, at);      \
    }
TRANSFER_AT(pwrite, WRITING, const void *, off_t)
TRANSFER_AT(pwrite64, WRITING, const void *, off64_t)

#define WITH_FD(name, kind)                         \
    int name(int fd) {                              \
        if (ON_FD(kind, #name, fd) == 1) return -1; \
        return REAL(name)(fd);                      \
    }
WITH_FD(fsync, SYNC)
WITH_FD(fdatasync, SYNC)

#define TRUNCATE(name, offset_type)                    \
    int name(int fd, offset_type size) {               \
        if (ON_FD(WRITING, #name, fd) == 1) return -1; \
        return REAL(name)(fd, size);                   \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

int flock(int fd, int operation) {
    if (ON_FD(SYNC, "flock", fd) == 1) return -1;
    return ((int (*)(int, int))dlsym(RTLD_NEXT, "flock"))(fd, operation);
}

#define WITH_PATH(name, kind)                           \
    int name(const char *path) {                        \
        if (ON_PATH(kind, #name, path) == 1) return -1; \
        return REAL(name)(path);                        \
    }
WITH_PATH(unlink, NAMES)
WITH_PATH(rmdir, NAMES)

int mkdir(const char *path, mode_t bits) {
    if (ON_PATH(NAMES, "mkdir", path) == 1) return -1;
    return REAL(mkdir)(path, bits);
}

int rename(const char *from, const char *to) {
    if (ON_PATH(NAMES, "rename", to) == 1) return -1;
    return REAL(rename)(from, to);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags) {
    if (ON_PATH(NAMES, "renameat2", to) == 1) return -1;
    return REAL(renameat2)(from_fd, from, to_fd, to, flags);
}

int unlinkat(int fd, const char *path, int flags) {
    if ((path[0] == '/' ? ON_PATH(NAMES, "unlinkat", path) : ON_FD(NAMES, "unlinkat", fd)) == 1) return -1;
    return REAL(unlinkat)(fd, path, flags);
}

DIR *opendir(const char *path) {
    if (ON_PATH(OPENING, "opendir", path) == 1) return NULL;
    return REAL(opendir)(path);
}

#define STATUS(name, type)                                  \
    int name(const char *path, struct type *found) {        \
        if (ON_PATH(LOOKING, #name, path) == 1) return -1;  \
        return REAL(name)(path, found);                     \
    }
STATUS(stat, stat)
STATUS(lstat, stat)
STATUS(stat64, stat64)
STATUS(lstat64, stat64)

#define MAP(name, offset_type)                                                              \
    void *name(void *where, size_t size, int access, int flags, int fd, offset_type at) {   \
        if (fd >= 0 && ON_FD(MAPPING, #name, fd) == 1) return MAP_FAILED;                   \
        return REAL(name)(where, size, access, flags, fd, at);                              \
    }
MAP(mmap, off_t)
MAP(mmap64, off64_t)
