// A memfd of any bytes, as a hostile peer may pass it: it opens as an arena whose buffers lie
// within it, or it does not open. The bytes stand at the start of a file of up to 64 KiB.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "bytes.h"
#include "state/arena.h"

using namespace monkeytree;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  // Whole pages or not, and often the size that the header tells.
  const size_t length = data[0] < 240 ? (data[0] % 16 + 1) * size_t{4096} : data[1] * size_t{61};
  data += 2;
  size = std::min(size - 2, length);
  Fd fd(memfd_create("fuzz", MFD_ALLOW_SEALING | MFD_CLOEXEC));
  // What a header needs besides zeros comes first and the directory after it, so that short
  // inputs reach far.
  const size_t header = std::min<size_t>(size, 160);
  require(ftruncate(fd.get(), static_cast<off_t>(length)) == 0);
  require(pwrite(fd.get(), data, header, 0) == static_cast<ssize_t>(header));
  if (length > 4096 && size > header) {
    const size_t rest = std::min(size - header, length - 4096);
    require(pwrite(fd.get(), data + header, rest, 4096) == static_cast<ssize_t>(rest));
  }
  require(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  absl::StatusOr<Arena> arena = Arena::open(std::move(fd));
  if (!arena.ok()) return 0;
  require(arena->bytes() == length);
  uint64_t sum = 0;
  for (size_t i = 0; i < arena->buffer_count(); ++i) {
    require(arena->offset(i) + arena->layout()[i].bytes <= length);
    require(arena->find(arena->layout()[i].name) == i);
    for (const std::byte byte : arena->buffer(i)) sum += static_cast<uint64_t>(byte);
  }
  arena->begin_epoch();
  arena->commit_with_checksums(sum);
  require(arena->verify().ok() && arena->committed_epoch() == sum);
  return 0;
}
