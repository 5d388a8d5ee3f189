#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/quote.h"

namespace dp {

MappedFile map_file(const std::filesystem::path& path) {
  const std::string file = quote(path.string());
  // O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw InputError("cannot open " + file + ": " + std::strerror(errno));
  const std::shared_ptr<void> closer(nullptr, [fd](void*) { close(fd); });
  struct stat status {};
  if (fstat(fd, &status) != 0)
    throw InputError("cannot read " + file + ": " + std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    throw InputError("cannot read " + file + ": it is not a regular file");
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return {};
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (memory == MAP_FAILED) throw InputError("cannot map " + file + ": " + std::strerror(errno));
  return {
      {static_cast<const std::byte*>(memory), size},
      std::shared_ptr<const void>(memory, [memory, size](const void*) { munmap(memory, size); })};
}

}  // namespace dp
