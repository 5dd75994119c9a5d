#include "state/arena.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <array>

#include "base/file.h"
#include "state/test_state.h"

namespace monkeytree {
namespace {

using testing::HasSubstr;

std::string message(const absl::Status& status) { return std::string(status.message()); }

Fd copy_of(const Arena& arena) { return Fd(dup(arena.fd())); }

TEST(Arena, HoldsNamedAlignedZeros) {
  absl::StatusOr<Arena> arena =
      Arena::create({{"a", 10, 64}, {"b", 5000, 4096}, {"empty", 0, 64}, {"c", 1, 64}});
  ASSERT_TRUE(arena.ok()) << arena.status();
  EXPECT_EQ(arena->find("b"), 1U);
  EXPECT_EQ(arena->find("d"), std::nullopt);
  EXPECT_EQ(arena->payload_bytes(), 5011U);
  for (size_t i = 0; i < 4; ++i) {
    const auto address = reinterpret_cast<uintptr_t>(arena->buffer(i).data());
    EXPECT_EQ(address % arena->layout()[i].alignment, 0U);
    for (const std::byte byte : arena->buffer(i)) ASSERT_EQ(byte, std::byte{0});
  }
}

TEST(Arena, BuffersDoNotOverlap) {
  RandomSequence random(7);
  for (int round = 0; round < 100; ++round) {
    const Layout layout = drawn_layout(random, random.below(20), 5000);
    absl::StatusOr<Arena> arena = Arena::create(layout);
    ASSERT_TRUE(arena.ok()) << arena.status();
    uint64_t end = 4096;
    for (size_t i = 0; i < layout.size(); ++i) {
      EXPECT_GE(arena->offset(i), end);
      EXPECT_EQ(arena->offset(i) % layout[i].alignment, 0U);
      EXPECT_EQ(arena->find(layout[i].name), i);
      end = arena->offset(i) + layout[i].bytes;
    }
    EXPECT_LE(end, arena->bytes());
    absl::StatusOr<Arena> other = Arena::open(copy_of(*arena));
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ(other->layout(), layout);
  }
}

TEST(Arena, RefusesLayouts) {
  const auto fault = [](const Layout& layout) { return message(Arena::create(layout).status()); };
  EXPECT_EQ(fault({{"a", 1, 32}}), "buffer \"a\": alignment 32, expected 64 or 4096");
  EXPECT_EQ(fault({{"a", 1, 64}, {"a", 2, 64}}), "two buffers are named \"a\"");
  EXPECT_EQ(fault({{"", 1, 64}}), "buffer 0: a name of 0 bytes, expected 1 to 512");
  EXPECT_THAT(fault({{std::string(513, 'x'), 1, 64}}), HasSubstr("a name of 513 bytes"));
  EXPECT_THAT(fault({{"a", UINT64_MAX, 64}}), HasSubstr("the limit is"));
  EXPECT_THAT(fault({{"a", kMaxArenaBytes, 64}, {"b", kMaxArenaBytes, 64}}),
              HasSubstr("the buffers take more than"));
  EXPECT_THAT(fault({{"a", uint64_t{1} << 45, 64}}), HasSubstr("does not fit"));
}

TEST(Arena, IsCommittedOrNot) {
  Arena arena = *Arena::create({{"a", 3000000, 64}, {"b", 8, 64}});
  EXPECT_EQ(arena.committed_epoch(), std::nullopt);
  EXPECT_EQ(message(arena.verify()), "the arena is not committed");
  arena.begin_epoch();
  arena.buffer(0)[2999999] = std::byte{1};
  arena.commit(17);
  EXPECT_EQ(arena.committed_epoch(), 17U);
  EXPECT_FALSE(arena.has_checksums());
  EXPECT_EQ(message(arena.verify()), "the arena was committed without checksums");
  arena.commit_with_checksums(18);
  EXPECT_EQ(arena.committed_epoch(), 18U);
  EXPECT_TRUE(arena.verify().ok());
  arena.buffer(0)[2999999] = std::byte{0};
  EXPECT_EQ(message(arena.verify()), "buffer \"a\" is not what was committed");
  arena.begin_epoch();
  EXPECT_EQ(arena.committed_epoch(), std::nullopt);
}

TEST(Arena, IsSeenByAnotherProcessWhichMayDie) {
  Arena arena = *Arena::create({{"a", 8, 64}});
  const pid_t child = fork();
  if (child == 0) {
    absl::StatusOr<Arena> same = Arena::open(copy_of(arena));
    if (!same.ok()) _exit(1);
    same->begin_epoch();
    same->buffer(0)[0] = std::byte{7};
    same->commit_with_checksums(3);
    same->begin_epoch();
    same->buffer(0)[0] = std::byte{8};
    _exit(0);  // in the middle of an epoch
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(arena.buffer(0)[0], std::byte{8});
  EXPECT_EQ(arena.committed_epoch(), std::nullopt);
}

TEST(Arena, StaysWhereItIsWhenMoved) {
  Arena arena = *Arena::create({{"a", 8, 64}});
  const std::byte* address = arena.buffer(0).data();
  Arena other = std::move(arena);
  EXPECT_EQ(other.buffer(0).data(), address);
  arena = *Arena::create({{"b", 16, 64}});
  EXPECT_EQ(arena.buffer(0).size(), 16U);
}

TEST(Arena, GathersAndScatters) {
  Arena arena = *Arena::create({{"a", 10, 64}});
  const std::array<char, 4> from = {'a', 'b', 'c', 'd'};
  EXPECT_TRUE(arena.gather(0, std::vector<ConstPiece>{{from.data(), 3, 7}, {&from[3], 1, 0}}).ok());
  std::array<char, 10> to{};
  EXPECT_TRUE(arena.scatter(0, std::vector<Piece>{{to.data(), 10, 0}}).ok());
  EXPECT_EQ(std::string(to.data(), 10), std::string("d\0\0\0\0\0\0abc", 10));
  EXPECT_EQ(message(arena.gather(0, std::vector<ConstPiece>{{from.data(), 4, 7}})),
            "4 bytes at 7 do not lie in buffer \"a\" of 10 bytes");
  EXPECT_EQ(arena.scatter(0, std::vector<Piece>{{to.data(), 2, UINT64_MAX}}).code(),
            absl::StatusCode::kOutOfRange);
}

TEST(Arena, OpensNothingThatCouldHarm) {
  const auto fault = [](int fd) { return message(Arena::open(Fd(fd)).status()); };
  EXPECT_EQ(fault(open("/dev/null", O_RDWR)), "not an arena: no memfd");
  std::string name = "/tmp/monkeytree_arena_XXXXXX";
  const int plain = mkstemp(name.data());
  EXPECT_EQ(fault(plain), "not an arena: no memfd");  // its owner could cut it short
  unlink(name.c_str());
  EXPECT_EQ(fault(memfd_create("x", MFD_ALLOW_SEALING)),
            "not an arena: not sealed against shrinking");
  const auto sealed = [](uint64_t bytes) {
    const int fd = memfd_create("x", MFD_ALLOW_SEALING);
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    return fd;
  };
  EXPECT_EQ(fault(sealed(0)), "not an arena: 0 bytes long");
  EXPECT_EQ(fault(sealed(8192)), "not an arena: no such header");
  EXPECT_NE(fault(-1), "");
}

TEST(Arena, OpensNoChangedHeader) {
  // Each byte of header and directory is changed in turn: the arena opens with a layout that fits
  // its memory, or it does not open.
  const Arena good = *Arena::create({{"weights", 100, 64}, {"moments", 5000, 4096}});
  for (size_t at = 0; at < 4096 + 64; ++at) {
    for (const int bit : {0, 3, 7}) {
      Arena bad = *Arena::create(good.layout());
      std::byte* start = bad.buffer(0).data() - bad.offset(0);
      start[at] ^= static_cast<std::byte>(1 << bit);
      absl::StatusOr<Arena> opened = Arena::open(copy_of(bad));
      if (!opened.ok()) continue;
      EXPECT_EQ(opened->bytes(), bad.bytes());
      EXPECT_EQ(opened->buffer_count(), 2U);
      EXPECT_LE(opened->offset(1) + opened->layout()[1].bytes, opened->bytes());
    }
  }
}

TEST(Arena, GivesItsMemoryBack) {
  const auto shared_kib = [] {
    const std::string status = *read_file("/proc/self/status");
    return std::stol(status.substr(status.find("RssShmem:") + 9));
  };
  const long before = shared_kib();
  {
    const Arena arena = *Arena::create({{"a", 64 << 20, 64}});
    EXPECT_GE(shared_kib(), before + (60 << 10));
  }
  EXPECT_LE(shared_kib(), before + (4 << 10));
}

TEST(Layout, IsReadAsWritten) {
  RandomSequence random(11);
  for (int round = 0; round < 200; ++round) {
    const Layout layout = drawn_layout(random, random.below(30), 1 << 20);
    const std::string bytes = encode_layout(layout);
    const absl::StatusOr<Layout> back = decode_layout(bytes, layout.size());
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, layout);
    EXPECT_FALSE(decode_layout(bytes, layout.size() + 1).ok());
    EXPECT_FALSE(decode_layout(bytes + std::string(8, '\0'), layout.size()).ok());
    if (!bytes.empty()) {
      EXPECT_FALSE(decode_layout(bytes.substr(0, random.below(bytes.size())), layout.size()).ok());
    }
  }
}

TEST(Layout, SaysWhereItDiffers) {
  const Layout layout = {{"a", 1, 64}, {"b", 2, 64}};
  EXPECT_EQ(layout_difference(layout, layout), "");
  EXPECT_EQ(layout_difference({{"a", 1, 64}, {"c", 2, 64}}, layout),
            "buffer 1 is \"c\", expected \"b\"");
  EXPECT_EQ(layout_difference({{"a", 4, 64}, {"b", 2, 64}}, layout),
            "buffer \"a\" has 4 bytes, expected 1");
  EXPECT_EQ(layout_difference({{"a", 1, 64}}, layout), "1 buffers, expected 2");
}

}  // namespace
}  // namespace monkeytree
