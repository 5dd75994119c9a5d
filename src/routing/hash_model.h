#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "routing/packet_header.h"

/// How a switch chooses among equal uplinks: a hash over fields of the header, reduced to a number
/// of uplinks. What it hashes and how is the maker's secret more often than not; this is a family
/// of models, and which one fits is found by probing (docs/paths.md).
namespace monkeytree {

enum class HashFamily {
  kCrc16Ccitt,  ///< polynomial 0x1021, register 0xffff
  kCrc16Ibm,    ///< 0x8005 reflected, register 0
  kCrc32,       ///< IEEE 802.3
  kCrc32c,      ///< Castagnoli
  kXor8,        ///< bytes folded into one
  kXor16,       ///< pairs of bytes
  kXor32,
  kJenkins,     ///< Bob Jenkins' lookup3, hashlittle()
  kOneAtATime,  ///< Bob Jenkins' one-at-a-time
};

enum class HashField { kSource, kDestination, kProtocol, kSourcePort, kDestinationPort };

struct MaskedField {
  HashField field = HashField::kSource;
  uint32_t mask = 0xffffffff;
  friend bool operator==(const MaskedField&, const MaskedField&) = default;
};

/// How a hash of so many bits becomes one of n uplinks.
enum class HashReduction {
  kModulo,  ///< hash mod n
  kRange,   ///< ⌊hash · n ÷ 2^bits⌋
};

struct HashModel {
  HashFamily family = HashFamily::kCrc32;
  uint32_t seed = 0;  ///< crc: xored into the register's first value; xor: the first value;
                      ///< jenkins: initval; one-at-a-time: the first value
  std::vector<MaskedField> fields = {
      {HashField::kSource},
      {HashField::kDestination},
      {HashField::kProtocol},
      {HashField::kSourcePort},
      {HashField::kDestinationPort}};  ///< as they are fed, high byte first
  int shift = 0;                       ///< low bits of the hash that are dropped
  int bits = 0;                        ///< bits that are kept then; 0: all that remain
  HashReduction reduction = HashReduction::kModulo;
  friend bool operator==(const HashModel&, const HashModel&) = default;
};

/// The hash of any bytes.
uint32_t hash_bytes(HashFamily family, uint32_t seed, std::span<const uint8_t> bytes);

/// Which of `uplinks` ≥ 1 equal uplinks the packet takes, counted in the order of the switch's
/// table.
int predicted_uplink(const HashModel& model, const PacketHeader& header, int uplinks);

/// Reads a model (YAML, docs/paths.md). Every fault of the file in one run; nullopt exactly when
/// there was an error.
std::optional<HashModel> parse_hash_model(std::string_view text, std::string_view file,
                                          Diagnostics& diagnostics);

}  // namespace monkeytree
