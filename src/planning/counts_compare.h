#pragma once

#include <gtest/gtest.h>

#include <string>

#include "planning/counts.h"

namespace monkeytree {

inline void expect_same_group(const Counts::GroupCounts& a, const Counts::GroupCounts& b) {
  EXPECT_EQ(a.size, b.size);
  if (a.size == 0) return;
  EXPECT_EQ(a.weight, b.weight);
  EXPECT_EQ(a.slots, b.slots);
  EXPECT_EQ(a.job, b.job);
  EXPECT_EQ(a.state_bytes, b.state_bytes);
  ASSERT_EQ(a.entries.size(), b.entries.size());
  for (size_t i = 0; i < a.entries.size(); ++i) {
    const Counts::Entry &x = a.entries[i], &y = b.entries[i];
    EXPECT_EQ(x.rack, y.rack);
    EXPECT_EQ(x.node_class, y.node_class);
    EXPECT_EQ(x.up, y.up);
    EXPECT_EQ(x.stay, y.stay);
    EXPECT_EQ(x.fixed, y.fixed);
    EXPECT_EQ(x.taken, y.taken);
    EXPECT_EQ(x.marks, y.marks);
  }
}

/// The two say the same of a cluster: groups, racks, room, and which racks are alike.
inline void expect_same_counts(const Counts& a, const Counts& b) {
  ASSERT_EQ(a.rack_count(), b.rack_count());
  ASSERT_EQ(a.class_count(), b.class_count());
  ASSERT_EQ(a.group_count(), b.group_count());
  for (size_t g = 0; g < a.group_count(); ++g) {
    SCOPED_TRACE("group " + std::to_string(g));
    expect_same_group(a.group(GroupId(g)), b.group(GroupId(g)));
  }
  for (size_t r = 0; r < a.rack_count(); ++r) {
    SCOPED_TRACE("rack " + std::to_string(r));
    const Counts::RackCounts &x = a.rack(RackId(r)), &y = b.rack(RackId(r));
    EXPECT_EQ(x.bound, y.bound);
    EXPECT_EQ(x.degree, y.degree);
    EXPECT_EQ(x.island, y.island);
    EXPECT_EQ(x.groups, y.groups);
    EXPECT_EQ(x.touched, y.touched);
    for (size_t c = 0; c < a.class_count(); ++c) {
      EXPECT_EQ(a.mixed(ClassId(c)), b.mixed(ClassId(c)));
      EXPECT_EQ(a.free(RackId(r), ClassId(c)), b.free(RackId(r), ClassId(c)));
      EXPECT_EQ(a.capacity(RackId(r), ClassId(c)), b.capacity(RackId(r), ClassId(c)));
    }
  }
  EXPECT_EQ(a.over(), b.over());
  EXPECT_EQ(a.excess(), b.excess());
  EXPECT_TRUE(a.kinds() == b.kinds());
}

}  // namespace monkeytree
