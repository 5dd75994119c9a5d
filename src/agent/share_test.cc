#include "agent/share.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/random.h"

namespace monkeytree {
namespace {

TEST(Share, KnowsWhatIsReplicated) {
  for (const char* name : {"model/a", "optimizer/0/1/exp_avg", "3/model/a", "12/optimizer/x"}) {
    EXPECT_TRUE(is_replicated(name)) << name;
  }
  for (const char* name : {"", "7", "objects", "buffer/a", "shard/0", "a/model/x", "3/3/model/a"}) {
    EXPECT_FALSE(is_replicated(name)) << name;
  }
}

TEST(Share, EveryBufferIsInOneShareAndWhatIsUniqueInTheFirst) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomSequence random(seed);
    Layout layout;
    uint64_t replicated = 0, unique = 0, largest = 0;
    for (uint64_t i = 0, n = 1 + random.below(40); i < n; ++i) {
      const bool shared = random.below(4) != 0;
      const uint64_t bytes = random.below(1000);
      layout.push_back({(shared ? "model/" : "buffer/") + std::to_string(i), bytes, 64});
      (shared ? replicated : unique) += bytes;
      if (shared) largest = std::max(largest, bytes);
    }
    const int shares = 1 + static_cast<int>(random.below(6));
    std::set<size_t> seen;
    for (int share = 0; share < shares; ++share) {
      uint64_t sent = 0;
      for (const size_t buffer : share_of(layout, share, shares)) {
        EXPECT_TRUE(seen.insert(buffer).second);
        EXPECT_TRUE(share == 0 || is_replicated(layout[buffer].name));
        sent += layout[buffer].bytes;
      }
      const uint64_t fair = (replicated + unique) / static_cast<uint64_t>(shares);
      EXPECT_LE(sent, std::max(unique, fair + largest));
    }
    EXPECT_EQ(seen.size(), layout.size());
  }
}

}  // namespace
}  // namespace monkeytree
