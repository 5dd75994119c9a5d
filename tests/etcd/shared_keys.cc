#include "shared_keys.h"

#include <chrono>
#include <cstdint>
#include <optional>

#include "control/migration.h"

namespace monkeytree {

SharedKeys::SharedKeys(const std::string& endpoint) : etcd_(*Etcd::open({{endpoint}, {}})) {}

std::string SharedKeys::state_under_way() const {
  const auto pairs = etcd_->read(keys_under("/monkeytree/migrations/"), std::chrono::seconds(5));
  if (!pairs.ok() || pairs->empty()) return "";
  const std::optional<Migration> migration = read_migration(pairs->front().value);
  return migration ? std::string(name_of(migration->state)) : "";
}

size_t SharedKeys::count(const std::string& under) const {
  const auto pairs = etcd_->read(keys_under("/monkeytree/" + under), std::chrono::seconds(60));
  return pairs.ok() ? pairs->size() : SIZE_MAX;
}

}  // namespace monkeytree
