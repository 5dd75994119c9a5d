#include "inventory/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "cluster/snapshot_json.h"
#include "inventory/csv_fabric.h"
#include "inventory/import.h"

namespace monkeytree {
namespace {

using ::testing::HasSubstr;

/// Rows as "a|b / c|d", or the findings.
std::string rows(std::string_view text) {
  Diagnostics diagnostics;
  const std::optional<CsvTable> table = parse_csv(text, "f", diagnostics);
  if (!table) return diagnostics.text();
  std::string out;
  const auto add = [&](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) out += (i == 0 ? "" : "|") + cells[i];
    out += " / ";
  };
  add(table->columns);
  for (const CsvTable::Row& row : table->rows) add(row.cells);
  return out;
}

TEST(Csv, ReadsRowsQuotesAndLineEnds) {
  EXPECT_EQ(rows("a,b\r\n1,2\r\n\n3,\n"), "a|b / 1|2 / 3| / ");
  EXPECT_EQ(rows("\xef\xbb\xbf"
                 "a\n\"x, \"\"y\"\"\nz\""),
            "a / x, \"y\"\nz / ");
  EXPECT_EQ(rows("a,b"), "a|b / ");
}

TEST(Csv, FaultsHaveLines) {
  EXPECT_EQ(
      rows("a,b\n1\n1,2\n1,2,3\n"),
      "f:2: 1 cells, expected 2 as in the header\nf:4: 3 cells, expected 2 as in the header\n");
  EXPECT_EQ(rows("a\n\n\"x\ny\n"), "f:3: a quote that is not closed\n");
  EXPECT_THAT(rows("a\n\"x\ny\"z\n"), HasSubstr("f:3: text after a closing quote"));
  EXPECT_THAT(rows("a,a\n"), HasSubstr("f:1: the column \"a\" stands there twice"));
  EXPECT_THAT(rows(""), HasSubstr("f: empty"));
  EXPECT_THAT(rows(std::string("a\nx\0y\n", 6)), HasSubstr("f:2: NUL byte"));
}

TEST(Csv, CellsAreQuotedWhereTheyMustBe) {
  EXPECT_EQ(csv_cell("x y"), "x y");
  EXPECT_EQ(csv_cell("a,\"b\""), "\"a,\"\"b\"\"\"");
}

std::string fabric(std::string_view text, std::vector<std::string> rack) {
  Diagnostics diagnostics;
  Uplinks uplinks;
  uplinks.given = true;
  const std::optional<Snapshot> snapshot =
      read_csv_fabric(text, "f", {"h", std::move(rack)}, uplinks, diagnostics);
  if (!snapshot) return diagnostics.text();
  std::string out = diagnostics.text();
  for (const Rack& r : snapshot->racks) {
    out += r.name + ":";
    for (NodeId node : r.nodes) out += " " + snapshot->nodes[node].name;
    out += "; ";
  }
  return out;
}

TEST(CsvFabric, RacksAreNamedByTheirColumns) {
  EXPECT_EQ(fabric("h,p,a\n1,P,S\n2,Q,S\n3,P,S\n", {"p", "a"}), "P/S: 1 3; Q/S: 2; ");
  EXPECT_EQ(fabric("h,p,a\n1,P,S\n2,Q,S\n3,P,S\n", {"a"}), "S: 1 2 3; ");
  EXPECT_EQ(fabric("h,p\n1,\n2,Q\n2,Q\n", {"p"}),
            "f:2: an empty cell where a host or a rack is named\n"
            "f:4: the host \"2\" already stands at line 3\n");
  EXPECT_EQ(fabric("h,p\n1,P\n", {"x"}), "f:1: no column \"x\", expected one of \"h\", \"p\"\n");
}

TEST(CsvFabric, LingjunHas119Racks) {
  const std::string file = std::string(MONKEYTREE_SOURCE_DIR) + "/tests/data/lingjun_topo.csv";
  Diagnostics diagnostics;
  const std::optional<Snapshot> snapshot =
      import_csv({file, "ip", {"PSW", "ASW"}, "8"}, diagnostics);
  ASSERT_TRUE(snapshot.has_value()) << diagnostics.text();
  EXPECT_EQ(diagnostics.text(), "");
  EXPECT_EQ(snapshot->racks.size(), 119u);
  EXPECT_EQ(snapshot->nodes.size(), 847u);
  for (const Rack& rack : snapshot->racks) {
    EXPECT_GE(rack.nodes.size(), 2u);
    EXPECT_LE(rack.nodes.size(), 8u);
    EXPECT_EQ(rack.bound(), 8);
  }
  const std::optional<Snapshot> by_asw = import_csv({file, "ip", {"ASW"}, "8"}, diagnostics);
  EXPECT_EQ(by_asw->racks.size(), 48u);
  EXPECT_TRUE(parse_snapshot(write_snapshot(*snapshot), "s", diagnostics).has_value());
}

TEST(Uplinks, ATableGivesEachRackItsOwn) {
  Diagnostics diagnostics;
  const std::optional<Uplinks> uplinks =
      parse_uplinks("uplinks,rack\n3,r1\n0,r2\n7,r9\n", "u", diagnostics);
  ASSERT_TRUE(uplinks.has_value());
  Snapshot snapshot;
  for (const char* name : {"r1", "r2", "r3"}) {
    snapshot.racks.push_back({});
    snapshot.racks.back().name = name;
  }
  apply_uplinks(*uplinks, "t", snapshot, diagnostics);
  EXPECT_EQ(snapshot.racks[RackId(0)].bound(), 3);
  EXPECT_EQ(snapshot.racks[RackId(1)].bound(), 0);
  EXPECT_EQ(snapshot.racks[RackId(2)].bound(), 2);
  EXPECT_EQ(diagnostics.text(),
            "u: warning: no row for the racks r3, which are taken to have 2 uplinks\n"
            "u: warning: rows for racks that are not there: r9\n");
}

TEST(Uplinks, ThoseThatFailedAreTakenAway) {
  Diagnostics diagnostics;
  const std::optional<Uplinks> uplinks =
      parse_uplinks("rack,uplinks,failed\nr1,4,2  0\nr2,2,\n", "u", diagnostics);
  ASSERT_TRUE(uplinks.has_value()) << diagnostics.text();
  Snapshot snapshot;
  for (const char* name : {"r1", "r2"}) {
    snapshot.racks.push_back({});
    snapshot.racks.back().name = name;
  }
  apply_uplinks(*uplinks, "t", snapshot, diagnostics);
  EXPECT_EQ(snapshot.racks[RackId(0)].spines, (std::vector{1, 3}));
  EXPECT_EQ(snapshot.racks[RackId(0)].failed, (std::vector{0, 2}));
  EXPECT_EQ(snapshot.racks[RackId(1)].bound(), 2);
  EXPECT_FALSE(parse_uplinks("rack,uplinks,failed\nr1,2,2\nr2,2,x\n", "u", diagnostics));
  EXPECT_EQ(
      diagnostics.text(),
      "u:2: failed: expected numbers of its 2 spines, from 0, parted by blanks, found \"2\"\n"
      "u:3: failed: expected numbers of its 2 spines, from 0, parted by blanks, found \"x\"\n");
}

TEST(Uplinks, FaultsHaveLines) {
  Diagnostics diagnostics;
  EXPECT_FALSE(parse_uplinks("rack,uplinks\nr1,x\nr2,-1\nr3,1\nr3,2\n", "u", diagnostics));
  EXPECT_EQ(diagnostics.text(),
            "u:2: uplinks: expected a number from 0 to 65536, found \"x\"\n"
            "u:3: uplinks: expected a number from 0 to 65536, found \"-1\"\n"
            "u:5: the rack \"r3\" stands there twice\n");
}

}  // namespace
}  // namespace monkeytree
