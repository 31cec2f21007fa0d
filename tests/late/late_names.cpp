// What a second mount of a directory shows: names that other processes made a moment ago are not
// there yet. Making a name asks the server and is told the truth, as on NFS; of a folder that is there
// already it is then seen.
//
//   LATE_FOLDER   where this is so       LATE_SECONDS   for how long
//
// Preloaded (LD_PRELOAD) into each process that is to see the folder through a mount of its own.

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <set>
#include <string>

struct stat64;

namespace {

const char* folder() {
  static const char* value = getenv("LATE_FOLDER");
  return value ? value : "/nowhere";
}

double seconds() {
  static const char* value = getenv("LATE_SECONDS");
  return value ? atof(value) : 0.0;
}

std::mutex guard;
std::set<unsigned long long> own;  // inodes of what this process has made

template <typename Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool look(int at, const char* path, int flags, struct statx* found) {
  return syscall(SYS_statx, at, path, flags, STATX_BTIME | STATX_INO, found) == 0;
}

// Whether another process made this name so short a time ago that it is not seen.
bool late(const char* path) {
  struct statx found;
  int kept = errno;
  bool is_late = false;
  if (path && strncmp(path, folder(), strlen(folder())) == 0 &&
      look(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, &found) && (found.stx_mask & STATX_BTIME)) {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double age = double(now.tv_sec - found.stx_btime.tv_sec) +
                 1e-9 * (double(now.tv_nsec) - double(found.stx_btime.tv_nsec));
    std::lock_guard<std::mutex> held(guard);
    is_late = age < seconds() && !own.count(found.stx_ino);
  }
  errno = is_late ? ENOENT : kept;
  return is_late;
}

void made(int at, const char* path, int flags) {
  struct statx found;
  int kept = errno;
  if (look(at, path, flags, &found)) {
    std::lock_guard<std::mutex> held(guard);
    own.insert(found.stx_ino);
  }
  errno = kept;
}

int opened(const char* name, const char* path, int flags, mode_t mode) {
  if (!(flags & O_CREAT)) {
    if (late(path)) return -1;
    return real<int (*)(const char*, int, ...)>(name)(path, flags);
  }
  struct statx found;
  bool is_new = !look(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, &found);
  int descriptor = real<int (*)(const char*, int, ...)>(name)(path, flags, mode);
  if (descriptor >= 0 && is_new) made(descriptor, "", AT_EMPTY_PATH);
  return descriptor;
}

}  // namespace

extern "C" {

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t mode = (flags & O_CREAT) ? va_arg(more, mode_t) : 0;
  va_end(more);
  return opened("open64", path, flags, mode);
}

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t mode = (flags & O_CREAT) ? va_arg(more, mode_t) : 0;
  va_end(more);
  return opened("open", path, flags, mode);
}

int mkdir(const char* path, mode_t mode) {
  int done = real<int (*)(const char*, mode_t)>("mkdir")(path, mode);
  if (done == 0 || errno == EEXIST) made(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
  return done;
}

int stat64(const char* path, struct stat64* into) {
  return late(path) ? -1 : real<int (*)(const char*, struct stat64*)>("stat64")(path, into);
}

int lstat64(const char* path, struct stat64* into) {
  return late(path) ? -1 : real<int (*)(const char*, struct stat64*)>("lstat64")(path, into);
}

DIR* opendir(const char* path) {
  return late(path) ? nullptr : real<DIR* (*)(const char*)>("opendir")(path);
}

dirent64* readdir64(DIR* directory) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd(directory));
  ssize_t length = readlink(link, path, sizeof path - 1);
  std::string base(path, length > 0 ? size_t(length) : 0);
  int kept = errno;
  while (dirent64* entry = real<dirent64* (*)(DIR*)>("readdir64")(directory)) {
    bool dots = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
    if (dots || !late((base + "/" + entry->d_name).c_str())) {
      errno = kept;
      return entry;
    }
    errno = kept;
  }
  return nullptr;
}

}
