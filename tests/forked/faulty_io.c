/* Lets one I/O call of a process fail, for tests/forked/server.py; loaded with LD_PRELOAD.
 *
 * It counts the calls of this process (not of the programs that it starts) on files below one folder, on relative paths,
 * and on stdout and stderr. Between faulty_begin and the end of the process, call `number` fails with `error`; with
 * `stays`, every later call fails too. flock can fail by itself, as on a file system without it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { FDS = 1024 };
static struct { long calls; char failed[64]; } *shared;
static char root[4096];
static long fail_at;
static int fail_with, fail_stays, no_flock;
static pid_t owner;
static char tracked[FDS];

__attribute__((constructor)) static void start(void) {
  shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

void faulty_begin(const char *folder, long number, int error, int stays, int streams) {
  strncpy(root, folder, sizeof root - 1);
  fail_at = number; fail_with = error; fail_stays = stays;
  shared->calls = 0; shared->failed[0] = 0;
  memset(tracked, 0, sizeof tracked);
  tracked[1] = tracked[2] = streams;
  owner = getpid();
}
void faulty_without_flock(void) { no_flock = 1; }
long faulty_calls(void) { return shared->calls; }
const char *faulty_failed(void) { return shared->failed; }

/* Whether this call is to fail. A child between fork and exec shares this memory, and must not count. */
static int fails(const char *name) {
  if (owner == 0 || getpid() != owner) return 0;
  long call = __sync_add_and_fetch(&shared->calls, 1);
  if (fail_at == 0 || call < fail_at || (call > fail_at && !fail_stays)) return 0;
  if (call == fail_at) strncpy(shared->failed, name, sizeof shared->failed - 1);
  errno = fail_with;
  return 1;
}
static int known_fd(int fd) { return fd >= 0 && fd < FDS && tracked[fd]; }
/* The programs on PATH are not files of the run: a shell would not find them either. */
static int known_path(const char *path) {
  size_t length = strlen(root);
  if (!owner || !path) return 0;
  if (path[0] != '/') return 1;
  if (strncmp(path, root, length)) return 0;
  return strncmp(path + length, "/bin/", 5) && strncmp(path + length, "/tools/", 7);
}
static int known_at(int folder, const char *path) {
  if (path && path[0] != '/' && folder != AT_FDCWD) return known_fd(folder);
  return known_path(path);
}
static int track(int fd, int known) {
  if (fd >= 0 && fd < FDS && owner && getpid() == owner) tracked[fd] = known;
  return fd;
}

#define REAL(type, name, ...) static type (*real)(__VA_ARGS__); if (!real) real = (type (*)(__VA_ARGS__)) dlsym(RTLD_NEXT, name)
#define MODE va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more)

#define OPEN(name) int name(const char *path, int flags, ...) { MODE; REAL(int, #name, const char *, int, ...); \
  int known = known_path(path); if (known && fails("open")) return -1; return track(real(path, flags, mode), known); }
OPEN(open) OPEN(open64)
#define OPENAT(name) int name(int at, const char *path, int flags, ...) { MODE; REAL(int, #name, int, const char *, int, ...); \
  int known = known_at(at, path); if (known && fails("open")) return -1; return track(real(at, path, flags, mode), known); }
OPENAT(openat) OPENAT(openat64)

#define ON_FD(type, name, args, pass, ...) type name args { REAL(type, #name, __VA_ARGS__); \
  if (known_fd(fd) && fails(#name)) return -1; return real pass; }
ON_FD(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n), int, void *, size_t)
ON_FD(ssize_t, pread64, (int fd, void *to, size_t n, off64_t at), (fd, to, n, at), int, void *, size_t, off64_t)
ON_FD(ssize_t, pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at), int, void *, size_t, off_t)
ON_FD(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n), int, const void *, size_t)
ON_FD(int, fsync, (int fd), (fd), int)
ON_FD(int, fdatasync, (int fd), (fd), int)
ON_FD(int, sync_file_range, (int fd, off64_t at, off64_t n, unsigned flags), (fd, at, n, flags),
      int, off64_t, off64_t, unsigned)
ON_FD(int, fchmod, (int fd, mode_t mode), (fd, mode), int, mode_t)
ON_FD(int, futimens, (int fd, const struct timespec t[2]), (fd, t), int, const struct timespec *)
ON_FD(int, fstat, (int fd, struct stat *to), (fd, to), int, struct stat *)
ON_FD(int, fstat64, (int fd, struct stat64 *to), (fd, to), int, struct stat64 *)
ON_FD(int, ftruncate64, (int fd, off64_t n), (fd, n), int, off64_t)

int flock(int fd, int operation) {
  REAL(int, "flock", int, int);
  if (no_flock) { errno = ENOLCK; return -1; }
  if (known_fd(fd) && fails("flock")) return -1;
  return real(fd, operation);
}
int close(int fd) {
  REAL(int, "close", int);
  int known = known_fd(fd), fail = known && fails("close");
  track(fd, 0); /* before the number is free: another thread may open it at once */
  int saved = errno, result = real(fd);
  if (fail) { errno = saved; return -1; }
  return result;
}
/* A copy of a descriptor is one of the same file; Python scans folders by copies. */
int dup(int fd) { REAL(int, "dup", int); return track(real(fd), known_fd(fd)); }
int dup2(int fd, int to) { REAL(int, "dup2", int, int); return track(real(fd, to), known_fd(fd)); }
int dup3(int fd, int to, int flags) { REAL(int, "dup3", int, int, int); return track(real(fd, to, flags), known_fd(fd)); }
#define FCNTL(name) int name(int fd, int command, ...) { REAL(int, #name, int, int, ...); \
  va_list more; va_start(more, command); void *argument = va_arg(more, void *); va_end(more); \
  int result = real(fd, command, argument), copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC; \
  return copies ? track(result, known_fd(fd)) : result; }
FCNTL(fcntl) FCNTL(fcntl64)
ssize_t sendfile(int out, int in, off_t *at, size_t n) {
  REAL(ssize_t, "sendfile", int, int, off_t *, size_t);
  if ((known_fd(in) || known_fd(out)) && fails("sendfile")) return -1;
  return real(out, in, at, n);
}
ssize_t sendfile64(int out, int in, off64_t *at, size_t n) {
  REAL(ssize_t, "sendfile64", int, int, off64_t *, size_t);
  if ((known_fd(in) || known_fd(out)) && fails("sendfile")) return -1;
  return real(out, in, at, n);
}
ssize_t copy_file_range(int in, off64_t *at, int out, off64_t *to, size_t n, unsigned flags) {
  REAL(ssize_t, "copy_file_range", int, off64_t *, int, off64_t *, size_t, unsigned);
  if ((known_fd(in) || known_fd(out)) && fails("copy_file_range")) return -1;
  return real(in, at, out, to, n, flags);
}

#define ON_PATH(type, name, args, pass, ...) type name args { REAL(type, #name, __VA_ARGS__); \
  if (known_path(path) && fails(#name)) return -1; return real pass; }
ON_PATH(int, mkdir, (const char *path, mode_t mode), (path, mode), const char *, mode_t)
ON_PATH(int, rmdir, (const char *path), (path), const char *)
ON_PATH(int, unlink, (const char *path), (path), const char *)
ON_PATH(int, rename, (const char *path, const char *to), (path, to), const char *, const char *)
ON_PATH(int, link, (const char *path, const char *to), (path, to), const char *, const char *)
ON_PATH(int, symlink, (const char *to, const char *path), (to, path), const char *, const char *)
ON_PATH(int, chmod, (const char *path, mode_t mode), (path, mode), const char *, mode_t)
ON_PATH(int, access, (const char *path, int mode), (path, mode), const char *, int)
ON_PATH(ssize_t, readlink, (const char *path, char *to, size_t n), (path, to, n), const char *, char *, size_t)
ON_PATH(int, stat, (const char *path, struct stat *to), (path, to), const char *, struct stat *)
ON_PATH(int, stat64, (const char *path, struct stat64 *to), (path, to), const char *, struct stat64 *)
ON_PATH(int, lstat, (const char *path, struct stat *to), (path, to), const char *, struct stat *)
ON_PATH(int, lstat64, (const char *path, struct stat64 *to), (path, to), const char *, struct stat64 *)

#define AT_PATH(name, args, pass, ...) int name args { REAL(int, #name, __VA_ARGS__); \
  if (known_at(at, path) && fails(#name)) return -1; return real pass; }
AT_PATH(mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), int, const char *, mode_t)
AT_PATH(unlinkat, (int at, const char *path, int flags), (at, path, flags), int, const char *, int)
AT_PATH(linkat, (int at, const char *path, int to, const char *name, int flags), (at, path, to, name, flags),
        int, const char *, int, const char *, int)
AT_PATH(renameat, (int at, const char *path, int to, const char *name), (at, path, to, name),
        int, const char *, int, const char *)
AT_PATH(faccessat, (int at, const char *path, int mode, int flags), (at, path, mode, flags), int, const char *, int, int)
AT_PATH(utimensat, (int at, const char *path, const struct timespec t[2], int flags), (at, path, t, flags),
        int, const char *, const struct timespec *, int)
AT_PATH(fstatat, (int at, const char *path, struct stat *to, int flags), (at, path, to, flags),
        int, const char *, struct stat *, int)
AT_PATH(fstatat64, (int at, const char *path, struct stat64 *to, int flags), (at, path, to, flags),
        int, const char *, struct stat64 *, int)

DIR *opendir(const char *path) {
  REAL(DIR *, "opendir", const char *);
  if (known_path(path) && fails("opendir")) return NULL;
  DIR *opened = real(path);
  if (opened) track(dirfd(opened), known_path(path));
  return opened;
}
struct dirent *readdir(DIR *folder) {
  REAL(struct dirent *, "readdir", DIR *);
  if (known_fd(dirfd(folder)) && fails("readdir")) return NULL;
  return real(folder);
}
struct dirent64 *readdir64(DIR *folder) {
  REAL(struct dirent64 *, "readdir64", DIR *);
  if (known_fd(dirfd(folder)) && fails("readdir")) return NULL;
  return real(folder);
}
int closedir(DIR *folder) {
  REAL(int, "closedir", DIR *);
  track(dirfd(folder), 0);
  return real(folder);
}
