#include <algorithm>
#include <bit>

#include "inventory/json_stream.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace monkeytree {
namespace {

/// One byte of a container or string; true where it ends the value.
bool step(char c, ScanState& state) {
  if (state.in_string) {
    if (state.escaped) {
      state.escaped = false;
    } else if (c == '\\') {
      state.escaped = true;
    } else if (c == '"') {
      state.in_string = false;
      return state.depth == 0;
    }
    return false;
  }
  if (c == '"') {
    state.in_string = true;
  } else if (c == '{' || c == '[') {
    ++state.depth;
  } else if (c == '}' || c == ']') {
    return --state.depth <= 0;
  }
  return false;
}

#ifdef __SSE2__
/// 64 bytes, a bit for each: what they are, for the loop below.
struct Block {
  uint64_t quotes = 0;
  uint64_t backslashes = 0;
  uint64_t opens = 0;
  uint64_t closes = 0;

  explicit Block(const char* bytes) {
    for (int i = 0; i < 4; ++i) {
      const __m128i chunk = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 16 * i));
      // '[' and ']' differ from '{' and '}' in one bit.
      const __m128i folded = _mm_or_si128(chunk, _mm_set1_epi8(0x20));
      quotes |= bits(chunk, '"') << (16 * i);
      backslashes |= bits(chunk, '\\') << (16 * i);
      opens |= bits(folded, '{') << (16 * i);
      closes |= bits(folded, '}') << (16 * i);
    }
  }

 private:
  static uint64_t bits(__m128i chunk, char wanted) {
    return static_cast<uint64_t>(
        static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(chunk, _mm_set1_epi8(wanted)))));
  }
};

/// Bit i of the result is the parity of bits 0 … i.
uint64_t prefix_parity(uint64_t bits) {
  for (int shift = 1; shift < 64; shift *= 2) bits ^= bits << shift;
  return bits;
}

/// Skips whole blocks in which the value surely does not end and nothing is escaped.
void skip_blocks(std::string_view text, ScanState& state) {
  while (state.at + 64 <= text.size() && state.depth > 0 && !state.escaped) {
    const Block block(text.data() + state.at);
    if (block.backslashes != 0) return;
    const uint64_t inside = prefix_parity(block.quotes) ^ (state.in_string ? ~uint64_t{0} : 0);
    const int closes = std::popcount(block.closes & ~inside);
    if (closes >= state.depth) return;
    state.depth += std::popcount(block.opens & ~inside) - closes;
    state.in_string = inside >> 63 != 0;
    state.at += 64;
  }
}
#else
void skip_blocks(std::string_view, ScanState&) {}
#endif

bool ends_scalar(char c) {
  return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

}  // namespace

size_t value_length(std::string_view text, ScanState* resume) {
  if (text.empty()) return std::string_view::npos;
  ScanState& state = *resume;
  if (text[0] != '{' && text[0] != '[' && text[0] != '"') {
    while (state.at < text.size() && !ends_scalar(text[state.at])) ++state.at;
    return state.at < text.size() ? state.at : std::string_view::npos;
  }
  while (state.at < text.size()) {
    skip_blocks(text, state);
    const size_t stop = std::min(text.size(), state.at + 64);
    while (state.at < stop) {
      if (step(text[state.at++], state)) return state.at;
    }
  }
  return std::string_view::npos;
}

}  // namespace monkeytree
