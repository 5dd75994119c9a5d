#include "state/arena.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <numeric>
#include <utility>

#include "base/json.h"
#include "state/checksum.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace monkeytree {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMagic = 0x31414e4552415f4d;  // "M_ARENA1"
constexpr uint64_t kHasChecksums = 1;

// The header is words of 8 bytes; those of the commit have a cache line of their own.
enum HeaderWord : size_t {
  kMagicWord = 0,
  kBufferCountWord = 1,
  kDirectoryBytesWord = 2,
  kTotalBytesWord = 3,
  kEpochWord = 16,
  kFlagsWord = 17,
  kCommitWord = 18,
};

// Never 0, and bound to what it commits.
uint64_t commit_word(uint64_t epoch, uint64_t flags) {
  const uint64_t words[] = {kMagic, epoch, flags};
  return checksum(std::as_bytes(std::span(words))) | 1;
}

absl::Status system_error(std::string_view what, int error) {
  return absl::Status(absl::ErrnoToStatusCode(error),
                      fmt::format("{}: {}", what, std::strerror(error)));
}

// What the machine could give without swapping; the largest number where it does not say.
uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  uint64_t kib = 0;
  std::string unit;
  while (file >> key >> kib >> unit) {
    if (key == "MemAvailable:") return kib << 10;
  }
  return UINT64_MAX;
}

absl::Status allocate(int fd, uint64_t bytes) {
  const auto exhausted = [&](std::string_view why) {
    return absl::ResourceExhaustedError(
        fmt::format("an arena of {} bytes does not fit: {}", bytes, why));
  };
  if (const uint64_t available = available_memory(); bytes > available) {
    return exhausted(fmt::format("{} bytes of memory are available", available));
  }
  int result = 0;
  do {
    result = fallocate(fd, 0, 0, static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result != 0) return exhausted(std::strerror(errno));
  return absl::OkStatus();
}

absl::Status check_piece(const BufferSpec& buffer, uint64_t offset, uint64_t bytes) {
  if (offset <= buffer.bytes && bytes <= buffer.bytes - offset) return absl::OkStatus();
  return absl::OutOfRangeError(fmt::format("{} bytes at {} do not lie in buffer {} of {} bytes",
                                           bytes, offset, quote(buffer.name), buffer.bytes));
}

/// Size and what of it has no memory yet, of a memfd that a peer has sent or a file of ours.
struct MemfdSize {
  uint64_t bytes = 0;
  uint64_t missing = 0;
};

absl::StatusOr<MemfdSize> check_memfd(int fd, bool own_file) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return system_error("fstat", errno);
  const int seals = fcntl(fd, F_GET_SEALS);
  const bool ours_alone = own_file && info.st_uid == geteuid() && (info.st_mode & 0077) == 0;
  if (!S_ISREG(info.st_mode) || (seals < 0 && !ours_alone)) {
    return absl::InvalidArgumentError("not an arena: no memfd");
  }
  // Without the seal the peer could cut the file short and this process would die of SIGBUS.
  if (!ours_alone && (seals & F_SEAL_SHRINK) == 0) {
    return absl::InvalidArgumentError("not an arena: not sealed against shrinking");
  }
  const auto bytes = static_cast<uint64_t>(info.st_size);
  return MemfdSize{bytes, bytes - std::min(bytes, static_cast<uint64_t>(info.st_blocks) * 512)};
}

absl::StatusOr<Fd> new_memory(const std::string& file) {
  Fd fd(file.empty()
            ? memfd_create("monkeytree-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING)
            : ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd.valid()) return fd;
  return system_error(file.empty() ? "memfd_create" : file, errno);
}

}  // namespace

absl::StatusOr<Arena> Arena::create(const Layout& layout, const Options& options) {
  absl::StatusOr<Geometry> geometry = geometry_of(layout);
  if (!geometry.ok()) return geometry.status();
  Arena arena;
  arena.layout_ = layout;
  arena.geometry_ = *std::move(geometry);
  const uint64_t total = arena.geometry_.total_bytes;
  absl::StatusOr<Fd> memory = new_memory(options.file);
  if (!memory.ok()) return memory.status();
  arena.fd_ = *std::move(memory);
  if (ftruncate(arena.fd(), static_cast<off_t>(total)) != 0) {
    return system_error(fmt::format("an arena of {} bytes", total), errno);
  }
  if (options.file.empty() && fcntl(arena.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return system_error("sealing an arena", errno);
  }
  if (options.prefault) {
    if (absl::Status status = allocate(arena.fd(), total); !status.ok()) return status;
  }
  if (absl::Status status = arena.map(options.prefault); !status.ok()) return status;
  const std::string directory = encode_layout(layout);
  std::memcpy(arena.memory_ + kPage, directory.data(), directory.size());
  arena.store(kBufferCountWord, layout.size());
  arena.store(kDirectoryBytesWord, directory.size());
  arena.store(kTotalBytesWord, total);
  arena.store(kMagicWord, kMagic);
  arena.index_names();
  return arena;
}

absl::StatusOr<Arena> Arena::open(Fd fd, const Options& options) {
  const absl::StatusOr<MemfdSize> memfd = check_memfd(fd.get(), options.own_file);
  if (!memfd.ok()) return memfd.status();
  const uint64_t size = memfd->bytes;
  const auto bad = [](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("not an arena: ", what));
  };
  if (size < kPage || size > kMaxArenaBytes) return bad(fmt::format("{} bytes long", size));
  Arena arena;
  arena.fd_ = std::move(fd);
  arena.geometry_.total_bytes = size;
  if (absl::Status status = arena.map(false); !status.ok()) return status;
  if (arena.load(kMagicWord) != kMagic) return bad("no such header");
  const uint64_t buffers = arena.load(kBufferCountWord);
  const uint64_t directory_bytes = arena.load(kDirectoryBytesWord);
  if (buffers > kMaxBuffers || directory_bytes > std::min(kMaxDirectoryBytes, size - kPage)) {
    return bad("its directory does not fit");
  }
  // A private copy, since the peer may change the directory while it is read.
  const std::string directory(reinterpret_cast<const char*>(arena.memory_ + kPage),
                              directory_bytes);
  absl::StatusOr<Layout> layout = decode_layout(directory, buffers);
  if (!layout.ok()) return bad(layout.status().message());
  absl::StatusOr<Geometry> geometry = geometry_of(*layout);
  if (!geometry.ok()) return bad(geometry.status().message());
  if (geometry->total_bytes != size || arena.load(kTotalBytesWord) != size) {
    return bad(fmt::format("{} bytes long, its buffers take {}", size, geometry->total_bytes));
  }
  arena.layout_ = *std::move(layout);
  arena.geometry_ = *std::move(geometry);
  if (options.prefault) {
    if (memfd->missing > available_memory()) {
      return absl::ResourceExhaustedError(
          fmt::format("an arena of {} bytes does not fit into memory", size));
    }
    if (absl::Status status = arena.populate(); !status.ok()) return status;
  }
  arena.index_names();
  return arena;
}

Arena::Arena(Arena&& other) noexcept { *this = std::move(other); }

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(memory_, other.memory_);
  std::swap(layout_, other.layout_);
  std::swap(geometry_, other.geometry_);
  std::swap(by_name_, other.by_name_);
  return *this;
}

Arena::~Arena() {
  if (memory_ != nullptr) munmap(memory_, geometry_.total_bytes);
}

absl::Status Arena::map(bool populated) {
  void* memory =
      mmap(nullptr, geometry_.total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (memory == MAP_FAILED) return system_error("mapping an arena", errno);
  memory_ = static_cast<std::byte*>(memory);
  return populated ? populate() : absl::OkStatus();
}

absl::Status Arena::populate() {
  madvise(memory_, geometry_.total_bytes, MADV_HUGEPAGE);  // where the system allows it
  int result = 0;
  do {
    result = madvise(memory_, geometry_.total_bytes, MADV_POPULATE_WRITE);
  } while (result != 0 && errno == EINTR);
  if (result == 0 || errno == EINVAL) return absl::OkStatus();  // EINVAL: a kernel before 5.14
  return absl::ResourceExhaustedError(fmt::format("prefaulting an arena of {} bytes: {}",
                                                  geometry_.total_bytes, std::strerror(errno)));
}

void Arena::index_names() {
  by_name_.resize(layout_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return layout_[a].name < layout_[b].name; });
}

std::optional<size_t> Arena::find(std::string_view name) const {
  const auto at = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [&](uint32_t index, std::string_view wanted) { return layout_[index].name < wanted; });
  if (at == by_name_.end() || layout_[*at].name != name) return std::nullopt;
  return *at;
}

std::span<std::byte> Arena::buffer(size_t index) {
  return {memory_ + geometry_.offsets[index], layout_[index].bytes};
}

std::span<const std::byte> Arena::buffer(size_t index) const {
  return {memory_ + geometry_.offsets[index], layout_[index].bytes};
}

uint64_t Arena::load(size_t word) const {
  return std::atomic_ref(reinterpret_cast<uint64_t*>(memory_)[word])
      .load(std::memory_order_acquire);
}

void Arena::store(size_t word, uint64_t value) {
  std::atomic_ref(reinterpret_cast<uint64_t*>(memory_)[word])
      .store(value, std::memory_order_release);
}

void Arena::begin_epoch() {
  store(kCommitWord, 0);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // no later write before it
}

void Arena::store_commit(uint64_t epoch, uint64_t flags) {
  store(kEpochWord, epoch);
  store(kFlagsWord, flags);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  store(kCommitWord, commit_word(epoch, flags));
}

void Arena::commit(uint64_t epoch) {
  begin_epoch();
  store_commit(epoch, 0);
}

void Arena::commit_with_checksums(uint64_t epoch) {
  std::vector<uint64_t> sums;
  sums.reserve(buffer_count());
  for (size_t i = 0; i < buffer_count(); ++i) {
    sums.push_back(buffer_checksum(std::as_const(*this).buffer(i)));
  }
  commit_with_checksums(epoch, sums);
}

void Arena::commit_with_checksums(uint64_t epoch, std::span<const uint64_t> sums) {
  begin_epoch();
  for (size_t i = 0; i < std::min(sums.size(), buffer_count()); ++i) {
    store(geometry_.checksums_offset / 8 + i, sums[i]);
  }
  store_commit(epoch, sums.size() == buffer_count() ? kHasChecksums : 0);
}

std::optional<uint64_t> Arena::committed_epoch() const {
  const uint64_t word = load(kCommitWord);
  const uint64_t epoch = load(kEpochWord);
  if (word == 0 || word != commit_word(epoch, load(kFlagsWord))) return std::nullopt;
  return epoch;
}

bool Arena::was_committed() const { return load(kCommitWord) != 0; }

bool Arena::has_checksums() const { return (load(kFlagsWord) & kHasChecksums) != 0; }

uint64_t Arena::recorded_checksum(size_t index) const {
  return load(geometry_.checksums_offset / 8 + index);
}

absl::Status Arena::verify() const {
  if (!committed_epoch()) return absl::FailedPreconditionError("the arena is not committed");
  if (!has_checksums()) {
    return absl::FailedPreconditionError("the arena was committed without checksums");
  }
  for (size_t i = 0; i < buffer_count(); ++i) {
    if (buffer_checksum(buffer(i)) != recorded_checksum(i)) {
      return absl::DataLossError(
          fmt::format("buffer {} is not what was committed", quote(layout_[i].name)));
    }
  }
  return absl::OkStatus();
}

absl::Status Arena::gather(size_t index, std::span<const ConstPiece> pieces) {
  for (const ConstPiece& piece : pieces) {
    if (absl::Status status = check_piece(layout_[index], piece.offset, piece.bytes);
        !status.ok()) {
      return status;
    }
    if (piece.bytes > 0) std::memcpy(buffer(index).data() + piece.offset, piece.data, piece.bytes);
  }
  return absl::OkStatus();
}

absl::Status Arena::scatter(size_t index, std::span<const Piece> pieces) const {
  for (const Piece& piece : pieces) {
    if (absl::Status status = check_piece(layout_[index], piece.offset, piece.bytes);
        !status.ok()) {
      return status;
    }
    if (piece.bytes > 0) std::memcpy(piece.data, buffer(index).data() + piece.offset, piece.bytes);
  }
  return absl::OkStatus();
}

}  // namespace monkeytree
