#pragma once

#include <memory>
#include <string>

#include "election/etcd.h"

namespace monkeytree {

/// What controllers share in etcd, as somebody sees it who is none of them.
class SharedKeys {
 public:
  explicit SharedKeys(const std::string& endpoint);

  /// The state of the first migration under way; "" where there is none.
  std::string state_under_way() const;
  /// How many keys there are under `under`, for example "plans/".
  size_t count(const std::string& under) const;

 private:
  std::unique_ptr<Etcd> etcd_;
};

}  // namespace monkeytree
