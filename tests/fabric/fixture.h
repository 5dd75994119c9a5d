#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "fabric.h"

namespace monkeytree {

/// Tests on fabrics of their own; skipped, with the reason, where the machine permits none.
class FabricFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = Fabric::missing();
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
  /// Null, after a failure, where it cannot be had.
  static std::unique_ptr<Fabric> up(const FabricSize& shape) {
    absl::StatusOr<std::unique_ptr<Fabric>> fabric = Fabric::up(shape);
    EXPECT_TRUE(fabric.ok()) << fabric.status();
    return fabric.ok() ? *std::move(fabric) : nullptr;
  }
};

}  // namespace monkeytree
