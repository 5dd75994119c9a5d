#pragma once

#include <cstring>
#include <memory>
#include <string>

#include "base/random.h"
#include "state/arena.h"

/// For tests: layouts and their contents, drawn from a seed.
namespace monkeytree {

inline Layout drawn_layout(RandomSequence& random, size_t buffers, uint64_t most_bytes) {
  Layout layout;
  for (size_t i = 0; i < buffers; ++i) {
    BufferSpec buffer;
    buffer.name = "layers." + std::to_string(i) + std::string(random.below(30), 'w');
    // Small ones, empty ones and multiples of a chunk are as frequent as any.
    const uint64_t kind = random.below(4);
    buffer.bytes = kind == 0   ? random.below(9)
                   : kind == 1 ? (random.below(3) << 20)
                               : random.below(most_bytes);
    buffer.alignment = random.below(2) == 0 ? 64 : 4096;
    layout.push_back(std::move(buffer));
  }
  return layout;
}

inline void fill(Arena& arena, RandomSequence& random) {
  for (size_t i = 0; i < arena.buffer_count(); ++i) {
    const std::span<std::byte> bytes = arena.buffer(i);
    for (size_t at = 0; at < bytes.size(); at += 8) {
      const uint64_t word = random.next();
      std::memcpy(bytes.data() + at, &word, std::min<size_t>(8, bytes.size() - at));
    }
  }
}

inline std::shared_ptr<Arena> make_arena(const Layout& layout) {
  return std::make_shared<Arena>(*Arena::create(layout));
}

/// An arena of some megabytes, committed at `epoch`.
inline std::shared_ptr<Arena> drawn_state(uint64_t seed, uint64_t epoch, size_t buffers = 12,
                                          uint64_t most_bytes = uint64_t{3} << 20) {
  RandomSequence random(seed);
  std::shared_ptr<Arena> arena = make_arena(drawn_layout(random, buffers, most_bytes));
  fill(*arena, random);
  arena->commit(epoch);
  return arena;
}

inline bool same_bytes(const Arena& a, const Arena& b) {
  if (a.layout() != b.layout()) return false;
  for (size_t i = 0; i < a.buffer_count(); ++i) {
    if (a.layout()[i].bytes > 0 &&
        std::memcmp(a.buffer(i).data(), b.buffer(i).data(), a.layout()[i].bytes) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace monkeytree
