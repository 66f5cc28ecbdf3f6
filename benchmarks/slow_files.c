/* A slow file system, for benchmarks/slow_files.py and tests that count calls; loaded with LD_PRELOAD.
 *
 * Every call that names a file or folder below SLOW_FILES_ROOT waits SLOW_FILES_MS milliseconds before it is made, in
 * this process and in all that it starts, as over a network where each name is asked for at a server. Reading and
 * writing what is open does not wait. With SLOW_FILES_LOG every such call, and every fsync and
 * sync_file_range, adds a line to that file:
 * "NAME PATH", with a "+" before NAME if it made a file, a folder or a link.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char root[4096];
static size_t length;
static long delay_ms;
static int record = -1;

__attribute__((constructor)) static void start(void) {
  const char *folder = getenv("SLOW_FILES_ROOT"), *wait = getenv("SLOW_FILES_MS"), *file = getenv("SLOW_FILES_LOG");
  if (!folder) return;
  strncpy(root, folder, sizeof root - 1);
  length = strlen(root);
  delay_ms = wait ? atol(wait) : 0;
  if (file) {
    int opened = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND | O_CREAT, 0666);
    record = syscall(SYS_fcntl, opened, F_DUPFD_CLOEXEC, 500); /* a number that no program closes by chance */
    syscall(SYS_close, opened);
  }
}

static int below(const char *path) {
  return length && !strncmp(path, root, length) && (path[length] == '/' || !path[length]);
}

/* The whole path of a name, relative to an open folder; an empty text if it is not below the root. */
static const char *place_of(int at, const char *path, char *whole, size_t size) {
  whole[0] = 0;
  if (!length || !path || !path[0]) return whole;
  if (path[0] == '/') {
    snprintf(whole, size, "%s", path);
  } else {
    char folder[4096] = "", number[64] = "/proc/self/cwd";
    if (at != AT_FDCWD) snprintf(number, sizeof number, "/proc/self/fd/%d", at);
    long got = syscall(SYS_readlinkat, AT_FDCWD, number, folder, sizeof folder - 1);
    if (got < 0) return whole;
    folder[got] = 0;
    snprintf(whole, size, "%s/%s", folder, path);
  }
  if (!below(whole)) whole[0] = 0;
  return whole;
}

static void note(const char *name, const char *place, int made) {
  if (record < 0) return;
  char line[8300];
  int size = snprintf(line, sizeof line, "%s%s %s\n", made ? "+" : "", name, place);
  if (syscall(SYS_write, record, line, size) != size) return;
}

#define WAITED(at, path) int saved = errno; char whole[8192]; const char *place = place_of(at, path, whole, sizeof whole); \
  if (place[0] && delay_ms) { struct timespec t = {delay_ms / 1000, delay_ms % 1000 * 1000000}; nanosleep(&t, NULL); } \
  errno = saved
#define REAL(type, name, ...) static type (*real)(__VA_ARGS__); if (!real) real = (type (*)(__VA_ARGS__)) dlsym(RTLD_NEXT, #name)
#define MODE mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }

/* Whether open will make the file; asked without a delay. */
static int is_new(int at, const char *path, int flags) {
  struct stat about;
  return (flags & O_CREAT) && syscall(SYS_newfstatat, at, path, &about, 0) != 0;
}

#define OPENED(name, at, call) WAITED(at, path); int fresh = place[0] && record >= 0 && is_new(at, path, flags); \
  errno = saved; int result = call; saved = errno; if (place[0]) note("open", place, fresh && result >= 0); \
  errno = saved; return result;
#define OPEN(name) int name(const char *path, int flags, ...) { MODE; REAL(int, name, const char *, int, ...); \
  OPENED(name, AT_FDCWD, real(path, flags, mode)) }
OPEN(open) OPEN(open64)
#define OPENAT(name) int name(int at, const char *path, int flags, ...) { MODE; REAL(int, name, int, const char *, int, ...); \
  OPENED(name, at, real(at, path, flags, mode)) }
OPENAT(openat) OPENAT(openat64)
#define FOPEN(name) FILE *name(const char *path, const char *how) { REAL(FILE *, name, const char *, const char *); \
  WAITED(AT_FDCWD, path); if (place[0]) note("open", place, 0); errno = saved; return real(path, how); }
FOPEN(fopen) FOPEN(fopen64)
DIR *opendir(const char *path) {
  REAL(DIR *, opendir, const char *);
  WAITED(AT_FDCWD, path); if (place[0]) note("opendir", place, 0); errno = saved; return real(path);
}

/* made: 1 for a call that makes what it names. */
#define CALL(type, name, at, path, made, args, pass, ...) type name args { REAL(type, name, __VA_ARGS__); WAITED(at, path); \
  type result = real pass; saved = errno; if (place[0]) note(#name, place, made && result == 0); errno = saved; return result; }
#define PATH(name, made, args, pass, ...) CALL(int, name, AT_FDCWD, path, made, args, pass, __VA_ARGS__)
#define AT(name, made, args, pass, ...) CALL(int, name, at, path, made, args, pass, __VA_ARGS__)
PATH(stat, 0, (const char *path, struct stat *to), (path, to), const char *, struct stat *)
PATH(stat64, 0, (const char *path, struct stat64 *to), (path, to), const char *, struct stat64 *)
PATH(lstat, 0, (const char *path, struct stat *to), (path, to), const char *, struct stat *)
PATH(lstat64, 0, (const char *path, struct stat64 *to), (path, to), const char *, struct stat64 *)
AT(fstatat, 0, (int at, const char *path, struct stat *to, int flags), (at, path, to, flags), int, const char *, struct stat *, int)
AT(fstatat64, 0, (int at, const char *path, struct stat64 *to, int flags), (at, path, to, flags), int, const char *, struct stat64 *, int)
AT(statx, 0, (int at, const char *path, int flags, unsigned mask, struct statx *to), (at, path, flags, mask, to), int, const char *, int, unsigned, struct statx *)
PATH(access, 0, (const char *path, int mode), (path, mode), const char *, int)
PATH(eaccess, 0, (const char *path, int mode), (path, mode), const char *, int)
AT(faccessat, 0, (int at, const char *path, int mode, int flags), (at, path, mode, flags), int, const char *, int, int)
PATH(chdir, 0, (const char *path), (path), const char *)
PATH(mkdir, 1, (const char *path, mode_t mode), (path, mode), const char *, mode_t)
AT(mkdirat, 1, (int at, const char *path, mode_t mode), (at, path, mode), int, const char *, mode_t)
PATH(mkfifo, 1, (const char *path, mode_t mode), (path, mode), const char *, mode_t)
PATH(unlink, 0, (const char *path), (path), const char *)
AT(unlinkat, 0, (int at, const char *path, int flags), (at, path, flags), int, const char *, int)
PATH(rmdir, 0, (const char *path), (path), const char *)
PATH(rename, 0, (const char *path, const char *to), (path, to), const char *, const char *)
AT(renameat, 0, (int at, const char *path, int there, const char *to), (at, path, there, to), int, const char *, int, const char *)
PATH(link, 0, (const char *path, const char *to), (path, to), const char *, const char *)
AT(linkat, 0, (int at, const char *path, int there, const char *to, int flags), (at, path, there, to, flags), int, const char *, int, const char *, int)
PATH(symlink, 1, (const char *to, const char *path), (to, path), const char *, const char *)
AT(symlinkat, 1, (const char *to, int at, const char *path), (to, at, path), const char *, int, const char *)
PATH(chmod, 0, (const char *path, mode_t mode), (path, mode), const char *, mode_t)
AT(fchmodat, 0, (int at, const char *path, mode_t mode, int flags), (at, path, mode, flags), int, const char *, mode_t, int)
AT(utimensat, 0, (int at, const char *path, const struct timespec t[2], int flags), (at, path, t, flags), int, const char *, const struct timespec *, int)
PATH(truncate, 0, (const char *path, off_t size), (path, size), const char *, off_t)
CALL(ssize_t, readlink, AT_FDCWD, path, 0, (const char *path, char *to, size_t n), (path, to, n), const char *, char *, size_t)
CALL(ssize_t, readlinkat, at, path, 0, (int at, const char *path, char *to, size_t n), (at, path, to, n), int, const char *, char *, size_t)

#define SYNC(name, args, pass, ...) int name args { REAL(int, name, __VA_ARGS__); char number[64], path[4096] = ""; \
  snprintf(number, sizeof number, "/proc/self/fd/%d", fd); \
  if (syscall(SYS_readlinkat, AT_FDCWD, number, path, sizeof path - 1) > 0 && below(path)) note(#name, path, 0); return real pass; }
SYNC(fsync, (int fd), (fd), int)
SYNC(fdatasync, (int fd), (fd), int)
SYNC(syncfs, (int fd), (fd), int)
SYNC(sync_file_range, (int fd, off64_t at, off64_t n, unsigned flags), (fd, at, n, flags), int, off64_t, off64_t, unsigned)
