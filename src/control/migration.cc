#include "control/migration.h"

#include <array>
#include <cstddef>
#include <span>
#include <utility>

namespace monkeytree {
namespace {

constexpr std::array<std::string_view, 10> kStates = {
    "planned",  "held",    "prepared", "paused",      "transferred",
    "restored", "resumed", "released", "rolled back", "abandoned"};
constexpr std::array<std::string_view, 9> kSteps = {
    "hold", "prepare", "pause", "transfer", "restore", "resume", "release", "roll back", "abandon"};
constexpr std::array<std::string_view, 3> kHeadings = {"forward", "back", "abandon"};

template <class Enum>
std::optional<Enum> named(std::span<const std::string_view> names, std::string_view name) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(MigrationState state) { return kStates[static_cast<size_t>(state)]; }
std::string_view name_of(Step step) { return kSteps[static_cast<size_t>(step)]; }
std::string_view name_of(Heading heading) { return kHeadings[static_cast<size_t>(heading)]; }

std::optional<MigrationState> migration_state(std::string_view name) {
  return named<MigrationState>(kStates, name);
}
std::optional<Step> migration_step(std::string_view name) { return named<Step>(kSteps, name); }
std::optional<Heading> heading_named(std::string_view name) {
  return named<Heading>(kHeadings, name);
}

bool ended(const Migration& migration) { return migration.state >= MigrationState::kReleased; }

bool can_turn_back(const Migration& migration) {
  return migration.state <
         (migration.stays_paused ? MigrationState::kResumed : MigrationState::kRestored);
}

std::optional<Step> next_step(const Migration& migration) {
  if (ended(migration)) return std::nullopt;
  switch (migration.heading) {
    case Heading::kBack:
      return Step::kRollBack;
    case Heading::kAbandon:
      return Step::kAbandon;
    case Heading::kForward:
      break;
  }
  // The steps forward stand in the order of the states that they start from.
  return static_cast<Step>(migration.state);
}

void advance(Migration& migration, Step done) {
  switch (done) {
    case Step::kRollBack:
      migration.state = MigrationState::kRolledBack;
      return;
    case Step::kAbandon:
      migration.state = MigrationState::kAbandoned;
      return;
    default:
      migration.state = static_cast<MigrationState>(static_cast<size_t>(done) + 1);
  }
}

}  // namespace monkeytree
