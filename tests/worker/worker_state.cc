#include "worker_state.h"

#include <fmt/format.h>

#include <cstring>

namespace monkeytree {
namespace {

constexpr size_t kCounters = 0, kTensor = 1, kMoments = 2, kShared = 3;  // buffers

uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t* words(std::span<std::byte> bytes) { return reinterpret_cast<uint64_t*>(bytes.data()); }
const uint64_t* words(std::span<const std::byte> bytes) {
  return reinterpret_cast<const uint64_t*>(bytes.data());
}

}  // namespace

uint64_t hash_text(const std::string& text) {
  uint64_t hash = text.size();
  for (char c : text) hash = mix(hash ^ static_cast<unsigned char>(c));
  return hash | 1;
}

absl::StatusOr<TrainingState> TrainingState::create(WorkerName name, int64_t bytes) {
  const auto third = static_cast<uint64_t>(bytes) / 24 * 8;
  const uint64_t rest = static_cast<uint64_t>(bytes) / 8 * 8 - 2 * third;
  absl::StatusOr<Arena> arena = Arena::create({{"counters", 16, 64},
                                               {"tensor", third, 64},
                                               {"moments", third, 4096},
                                               {"model/shared", rest, 64}});
  if (!arena.ok()) return arena.status();
  TrainingState state(std::move(name), *std::move(arena));
  state.fill();
  return state;
}

int64_t TrainingState::iteration() const {
  return static_cast<int64_t>(words(arena_.buffer(kCounters))[0]);
}
uint64_t TrainingState::sum() const { return words(arena_.buffer(kCounters))[1]; }

uint64_t TrainingState::word(uint64_t index) const {
  return mix(hash_text(to_string(name_)) ^ mix(static_cast<uint64_t>(iteration())) ^ sum()) +
         index * 0x9e3779b97f4a7c15;
}

uint64_t TrainingState::first_word(size_t buffer) const {
  if (buffer != kShared) return word(0);
  return mix(hash_text(name_.job) ^ mix(static_cast<uint64_t>(iteration())) ^ sum());
}

uint64_t TrainingState::contribution() const { return word(0); }

void TrainingState::step(uint64_t ring_sum) {
  uint64_t* counters = words(arena_.buffer(kCounters));
  ++counters[0];
  counters[1] = mix(counters[1] ^ ring_sum);
  fill();
}

void TrainingState::fill() {
  uint64_t index = 0;
  for (size_t buffer : {kTensor, kMoments, kShared}) {
    const uint64_t first = first_word(buffer);
    const std::span<std::byte> bytes = arena_.buffer(buffer);
    uint64_t* out = words(bytes);
    for (size_t i = 0; i < bytes.size() / 8; ++i) out[i] = first + index++ * 0x9e3779b97f4a7c15;
  }
}

absl::Status TrainingState::check() const {
  uint64_t index = 0;
  for (size_t buffer : {kTensor, kMoments, kShared}) {
    const uint64_t first = first_word(buffer);
    const std::span<const std::byte> bytes = arena_.buffer(buffer);
    const uint64_t* in = words(bytes);
    for (size_t i = 0; i < bytes.size() / 8; ++i) {
      if (in[i] == first + index++ * 0x9e3779b97f4a7c15) continue;
      return absl::DataLossError(fmt::format("word {} of buffer {} is not that of iteration {}", i,
                                             arena_.layout()[buffer].name, iteration()));
    }
  }
  return absl::OkStatus();
}

}  // namespace monkeytree
