#include "service/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/file.h"
#include "inventory/emulated_scheduler.h"

namespace monkeytree {
namespace {

/// A page in Prometheus' text format, read strictly: "name{a=\"b\"}" → value.
struct Page {
  std::map<std::string, std::string> types, helps;
  std::map<std::string, double> values;
  std::vector<std::string> faults;
};

Page read_page(const std::string& text) {
  static const std::regex kComment(R"(# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+))");
  static const std::regex kSample(
      R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\]|\\.)*",?)*\})? (\S+))re");
  Page page;
  std::string family;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch parts;
    if (std::regex_match(line, parts, kComment)) {
      family = parts[2];
      auto& where = parts[1] == "HELP" ? page.helps : page.types;
      if (!where.emplace(parts[2], parts[3]).second) page.faults.push_back("twice: " + line);
      continue;
    }
    if (!std::regex_match(line, parts, kSample)) {
      page.faults.push_back("no sample: " + line);
      continue;
    }
    // Samples stand under their own family, histograms with a suffix.
    std::string name = parts[1];
    if (page.types[family] == "histogram") {
      name = std::regex_replace(name, std::regex("_(bucket|sum|count)$"), "");
    }
    if (name != family) page.faults.push_back("out of place: " + line);
    if (!page.values.emplace(parts[1].str() + parts[2].str(), std::stod(parts[5])).second) {
      page.faults.push_back("twice: " + line);
    }
  }
  return page;
}

ControllerView view_of(EmulatedScheduler& cluster) {
  ControllerView view;
  view.mode = Mode::kEnforce;
  view.ready = true;
  view.observed_s = 100;
  view.reconcile_ms = 12;
  view.plan_ms = 3;
  view.snapshot = std::make_shared<const Snapshot>(cluster.observe(Deadline::max())->snapshot);
  view.agents.resize(3);
  view.agents[0].connected = true;
  return view;
}

TEST(Metrics, ThePageFollowsTheConventions) {
  EmulatedScheduler cluster(uniform_cluster(2, 2, 8, 1));
  for (const auto& nodes : {std::vector<std::string>{"r0n0", "r1n0"}, {"r0n1", "r1n1"}}) {
    EmulatedJob job;
    job.groups = {2};
    job.nodes = nodes;
    ASSERT_TRUE(cluster.submit(job).ok());
  }
  Metrics metrics;
  Migration migration;
  migration.id = "1.0.0";
  migration.moves.resize(2);
  migration.moves[1].to = kStagingNode;
  metrics.on_step({migration, Step::kTransfer, true, {}});
  metrics.on_step({migration, Step::kTransfer, false, absl::UnavailableError("gone")});
  metrics.on_step({migration, Step::kRelease, true, {}});
  migration.state = MigrationState::kReleased;
  metrics.on_step({migration, Step::kRelease, false, {}});
  metrics.on_event({1, 0, "over", "", "{}"});
  metrics.on_request("/api/v1/status", 200);
  const std::string text = metrics.text(view_of(cluster), {{PlanState::kDone, 4}}, 5, 107.5);
  const Page page = read_page(text);
  EXPECT_THAT(page.faults, testing::IsEmpty());
  for (const auto& [name, type] : page.types) {
    EXPECT_TRUE(page.helps.contains(name)) << name;
    EXPECT_TRUE(name.starts_with("monkeytree_")) << name;
    EXPECT_EQ(name.ends_with("_total"), type == "counter") << name;
    for (const char* unit : {"_ms", "_s", "_milliseconds", "_minutes"}) {
      EXPECT_FALSE(name.ends_with(unit)) << name;
    }
  }
  const std::string docs = *read_file(std::string(MONKEYTREE_SOURCE_DIR) + "/docs/operating.md");
  for (const auto& [name, type] : page.types) {
    const std::string short_name = name.substr(std::string("monkeytree_").size());
    EXPECT_THAT(docs, testing::ContainsRegex("`" + short_name + "[`{]")) << "not in the docs";
  }
  const std::map<std::string, double> expected = {
      {"monkeytree_observation_age_seconds", 7.5},
      {"monkeytree_last_reconcile_seconds", 0.012},
      {"monkeytree_last_plan_seconds", 0.003},
      {"monkeytree_mode{mode=\"enforce\"}", 1},
      {"monkeytree_mode{mode=\"observe\"}", 0},
      {"monkeytree_agents", 3},
      {"monkeytree_agents_connected", 1},
      {"monkeytree_rack_degree{rack=\"r0\"}", 2},
      {"monkeytree_rack_bound{rack=\"r0\"}", 1},
      {"monkeytree_racks_over", 2},
      {"monkeytree_excess", 2},
      {"monkeytree_plans{state=\"done\"}", 4},
      {"monkeytree_plans{state=\"failed\"}", 0},
      {"monkeytree_moves_total", 1},
      {"monkeytree_migrations_total{outcome=\"released\"}", 1},
      {"monkeytree_migrations_total{outcome=\"rolled_back\"}", 0},
      {"monkeytree_step_failures_total{step=\"transfer\"}", 1},
      {"monkeytree_step_duration_seconds_count{step=\"transfer\"}", 1},
      {"monkeytree_step_duration_seconds_bucket{step=\"release\",le=\"+Inf\"}", 1},
      {"monkeytree_events_total{kind=\"over\"}", 1},
      {"monkeytree_http_requests_total{route=\"/api/v1/status\",status=\"200\"}", 1},
      {"monkeytree_event_listeners", 5},
      {"monkeytree_ready", 1},
      {"monkeytree_paused", 0},
  };
  for (const auto& [name, value] : expected) {
    const auto found = page.values.find(name);
    ASSERT_NE(found, page.values.end()) << name << "\n" << text;
    EXPECT_DOUBLE_EQ(found->second, value) << name;
  }
  EXPECT_EQ(text, metrics.text(view_of(cluster), {{PlanState::kDone, 4}}, 5, 107.5));
}

TEST(Metrics, BeforeTheFirstLookThereAreNoRacks) {
  const Page page = read_page(Metrics().text({}, {}, 0, 1));
  EXPECT_THAT(page.faults, testing::IsEmpty());
  EXPECT_FALSE(page.values.contains("monkeytree_observation_age_seconds"));
  EXPECT_FALSE(page.types.contains("monkeytree_rack_degree"));
  EXPECT_EQ(page.values.at("monkeytree_ready"), 0);
}

TEST(Metrics, NamesOfRacksAreEscaped) {
  auto snapshot = std::make_shared<Snapshot>(uniform_cluster(1, 1, 1, 1));
  snapshot->racks[RackId(0)].name = "a\"b\\c\nd";
  ControllerView view;
  view.snapshot = snapshot;
  const Page page = read_page(Metrics().text(view, {}, 0, 1));
  EXPECT_THAT(page.faults, testing::IsEmpty());
  EXPECT_TRUE(page.values.contains(R"(monkeytree_rack_degree{rack="a\"b\\c\nd"})"));
}

}  // namespace
}  // namespace monkeytree
