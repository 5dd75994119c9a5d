#include "routing/hash_model.h"

#include <bit>

namespace monkeytree {
namespace {

uint32_t crc16_ccitt(uint32_t start, std::span<const uint8_t> bytes) {
  uint32_t crc = start & 0xffff;
  for (const uint8_t byte : bytes) {
    crc ^= static_cast<uint32_t>(byte) << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1 ^ (crc & 0x8000 ? 0x1021U : 0U)) & 0xffff;
  }
  return crc;
}

/// Polynomial and register with the lowest bit first.
uint32_t reflected_crc(uint32_t polynomial, uint32_t start, std::span<const uint8_t> bytes) {
  uint32_t crc = start;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0U);
  }
  return crc;
}

/// Bytes as numbers of `width` bytes, the first byte highest, xored; zeros fill the last.
uint32_t fold(size_t width, uint32_t start, std::span<const uint8_t> bytes) {
  const uint32_t all = width == 4 ? 0xffffffffU : (1U << (8 * width)) - 1;
  uint32_t sum = start & all;
  for (size_t i = 0; i < bytes.size(); ++i) {
    sum ^= static_cast<uint32_t>(bytes[i]) << (8 * (width - 1 - i % width));
  }
  return sum;
}

/// Four bytes, the first lowest; zeros where there are none.
uint32_t little_word(std::span<const uint8_t> bytes, size_t from) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4 && from + i < bytes.size(); ++i) {
    word |= static_cast<uint32_t>(bytes[from + i]) << (8 * i);
  }
  return word;
}

uint32_t jenkins(uint32_t seed, std::span<const uint8_t> bytes) {
  uint32_t a = 0xdeadbeef + static_cast<uint32_t>(bytes.size()) + seed;
  uint32_t b = a, c = a;
  const auto take = [&](size_t from) {
    a += little_word(bytes, from);
    b += little_word(bytes, from + 4);
    c += little_word(bytes, from + 8);
  };
  size_t at = 0;
  for (; bytes.size() - at > 12; at += 12) {
    take(at);
    a -= c, a ^= std::rotl(c, 4), c += b;
    b -= a, b ^= std::rotl(a, 6), a += c;
    c -= b, c ^= std::rotl(b, 8), b += a;
    a -= c, a ^= std::rotl(c, 16), c += b;
    b -= a, b ^= std::rotl(a, 19), a += c;
    c -= b, c ^= std::rotl(b, 4), b += a;
  }
  if (at == bytes.size()) return c;
  take(at);
  c ^= b, c -= std::rotl(b, 14);
  a ^= c, a -= std::rotl(c, 11);
  b ^= a, b -= std::rotl(a, 25);
  c ^= b, c -= std::rotl(b, 16);
  a ^= c, a -= std::rotl(c, 4);
  b ^= a, b -= std::rotl(a, 14);
  c ^= b, c -= std::rotl(b, 24);
  return c;
}

uint32_t one_at_a_time(uint32_t seed, std::span<const uint8_t> bytes) {
  uint32_t hash = seed;
  for (const uint8_t byte : bytes) {
    hash += byte;
    hash += hash << 10;
    hash ^= hash >> 6;
  }
  hash += hash << 3;
  hash ^= hash >> 11;
  return hash + (hash << 15);
}

int bits_of(HashFamily family) {
  switch (family) {
    case HashFamily::kXor8:
      return 8;
    case HashFamily::kCrc16Ccitt:
    case HashFamily::kCrc16Ibm:
    case HashFamily::kXor16:
      return 16;
    default:
      return 32;
  }
}

uint32_t value_of(const PacketHeader& header, HashField field) {
  switch (field) {
    case HashField::kSource:
      return header.source;
    case HashField::kDestination:
      return header.destination;
    case HashField::kProtocol:
      return static_cast<uint32_t>(header.protocol);
    case HashField::kSourcePort:
      return header.source_port;
    case HashField::kDestinationPort:
      return header.destination_port;
  }
  return 0;
}

size_t bytes_of(HashField field) {
  switch (field) {
    case HashField::kSource:
    case HashField::kDestination:
      return 4;
    case HashField::kProtocol:
      return 1;
    default:
      return 2;
  }
}

void append_high_first(std::vector<uint8_t>& bytes, uint32_t value, size_t width) {
  for (size_t i = width; i-- > 0;) bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

}  // namespace

uint32_t hash_bytes(HashFamily family, uint32_t seed, std::span<const uint8_t> bytes) {
  switch (family) {
    case HashFamily::kCrc16Ccitt:
      return crc16_ccitt(seed ^ 0xffff, bytes);
    case HashFamily::kCrc16Ibm:
      return reflected_crc(0xa001, seed & 0xffff, bytes);
    case HashFamily::kCrc32:
      return ~reflected_crc(0xedb88320, ~seed, bytes);
    case HashFamily::kCrc32c:
      return ~reflected_crc(0x82f63b78, ~seed, bytes);
    case HashFamily::kXor8:
      return fold(1, seed, bytes);
    case HashFamily::kXor16:
      return fold(2, seed, bytes);
    case HashFamily::kXor32:
      return fold(4, seed, bytes);
    case HashFamily::kJenkins:
      return jenkins(seed, bytes);
    case HashFamily::kOneAtATime:
      return one_at_a_time(seed, bytes);
  }
  return 0;
}

int predicted_uplink(const HashModel& model, const PacketHeader& header, int uplinks) {
  if (uplinks <= 1) return 0;
  const bool folds = model.family == HashFamily::kXor8 || model.family == HashFamily::kXor16 ||
                     model.family == HashFamily::kXor32;
  std::vector<uint8_t> bytes;
  for (const auto& [field, mask] : model.fields) {
    // Folded fields lie one above the other, lowest bit over lowest bit.
    append_high_first(bytes, value_of(header, field) & mask, folds ? 4 : bytes_of(field));
  }
  const int whole = bits_of(model.family);
  const int bits = model.bits == 0 ? whole - model.shift : model.bits;
  const uint64_t hash =
      static_cast<uint64_t>(hash_bytes(model.family, model.seed, bytes)) >> model.shift &
      ((uint64_t{1} << bits) - 1);
  const uint64_t n = static_cast<uint64_t>(uplinks);
  return static_cast<int>(model.reduction == HashReduction::kModulo ? hash % n : hash * n >> bits);
}

}  // namespace monkeytree
