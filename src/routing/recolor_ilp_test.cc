// The fewest recolourings, and whether racks with different spines can be isolated at all, by
// integer programs over CBC: the referee of what recolor() and share_least() find.

#include <coin/Cbc_C_Interface.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>

#include "routing/color_all.h"
#include "routing/recolor.h"
#include "routing/sharing.h"

namespace monkeytree {
namespace {

struct Instance {
  size_t racks = 0;
  int colors = 0;
  std::vector<uint64_t> usable;
  std::vector<FormerColor> flows;

  bool may(const FormerColor& flow, int color) const {
    return ((usable[static_cast<size_t>(flow.from.value)] &
             usable[static_cast<size_t>(flow.to.value)]) >>
            color) &
           1;
  }
};

/// Fewest flows that lose their former colour in a proper colouring: a binary x(flow, colour), one
/// colour a flow, one flow a colour on each side of each rack. nullopt where there is none.
std::optional<int> fewest_recolored(const Instance& instance) {
  const std::unique_ptr<Cbc_Model, decltype(&Cbc_deleteModel)> owner(Cbc_newModel(),
                                                                     &Cbc_deleteModel);
  Cbc_Model* model = owner.get();
  Cbc_setLogLevel(model, 0);
  std::map<std::array<int, 3>, std::vector<int>> sides;  // rack, in, colour → columns
  std::vector<std::vector<int>> choices(instance.flows.size());
  int columns = 0;
  for (size_t f = 0; f < instance.flows.size(); ++f) {
    const FormerColor& flow = instance.flows[f];
    for (int c = 0; c < instance.colors; ++c) {
      if (!instance.may(flow, c)) continue;
      const double cost = flow.color >= 0 && flow.color != c ? 1 : 0;
      Cbc_addCol(model, "x", 0, 1, cost, 1, 0, nullptr, nullptr);
      choices[f].push_back(columns);
      sides[{flow.from.value, 0, c}].push_back(columns);
      sides[{flow.to.value, 1, c}].push_back(columns);
      ++columns;
    }
    if (choices[f].empty()) return std::nullopt;
  }
  const std::vector<double> ones(static_cast<size_t>(columns), 1.0);
  for (const std::vector<int>& choice : choices) {
    Cbc_addRow(model, "one", static_cast<int>(choice.size()), choice.data(), ones.data(), 'E', 1);
  }
  for (const auto& [side, members] : sides) {
    if (members.size() < 2) continue;
    Cbc_addRow(model, "link", static_cast<int>(members.size()), members.data(), ones.data(), 'L',
               1);
  }
  Cbc_solve(model);
  if (!Cbc_isProvenOptimal(model)) return std::nullopt;
  return static_cast<int>(Cbc_getObjValue(model) + 0.5);
}

/// Flows recoloured; -1 where the colouring is not proper.
int recolored(const Instance& instance, const std::vector<int>& colors) {
  std::map<std::array<int, 3>, int> loads;
  int changed = 0;
  for (size_t f = 0; f < instance.flows.size(); ++f) {
    const FormerColor& flow = instance.flows[f];
    if (colors[f] < 0 || colors[f] >= instance.colors || !instance.may(flow, colors[f])) return -1;
    if (++loads[{flow.from.value, 0, colors[f]}] > 1) return -1;
    if (++loads[{flow.to.value, 1, colors[f]}] > 1) return -1;
    changed += flow.color >= 0 && flow.color != colors[f];
  }
  return changed;
}

/// A few racks coloured properly, of whose flows `come` have gone and as many others have come, as
/// far as the racks' bounds allow.
Instance changed_cluster(std::mt19937& random, size_t most_flows, int come) {
  Instance instance;
  instance.racks = 3 + random() % 3;
  instance.colors = 2 + static_cast<int>(random() % 3);
  instance.usable.assign(instance.racks, (uint64_t{1} << instance.colors) - 1);
  std::vector<int> out(instance.racks, 0), in(instance.racks, 0);
  std::vector<RackPair> pairs;
  const auto draw = [&](size_t wanted) {
    for (int tries = 0; pairs.size() < wanted && tries < 200; ++tries) {
      const size_t from = random() % instance.racks, to = random() % instance.racks;
      if (from == to || out[from] == instance.colors || in[to] == instance.colors) continue;
      ++out[from];
      ++in[to];
      pairs.push_back({RackId(from), RackId(to)});
    }
  };
  draw(most_flows);
  const std::vector<int> bounds(instance.racks, instance.colors);
  const std::vector<int> colors = color_all(pairs, bounds);
  for (size_t i = 0; i < pairs.size(); ++i) {
    instance.flows.push_back({pairs[i].from, pairs[i].to, colors[i]});
  }
  std::shuffle(instance.flows.begin(), instance.flows.end(), random);
  for (int i = 0; i < come && !instance.flows.empty(); ++i) {
    const FormerColor gone = instance.flows.back();
    instance.flows.pop_back();
    --out[static_cast<size_t>(gone.from.value)];
    --in[static_cast<size_t>(gone.to.value)];
  }
  pairs.clear();
  draw(static_cast<size_t>(come));
  for (const RackPair& pair : pairs) instance.flows.push_back({pair.from, pair.to, -1});
  return instance;
}

TEST(RecolorAgainstTheIlp, FewestRecoloringsOfUpTo12Flows) {
  std::mt19937 random(1);
  std::map<int, int> gaps;
  int instances = 0, total = 0, fewest_total = 0;
  for (int round = 0; round < 600; ++round) {
    const Instance instance =
        changed_cluster(random, 8 + random() % 5, 1 + static_cast<int>(random() % 5));
    const std::optional<int> fewest = fewest_recolored(instance);
    ASSERT_TRUE(fewest) << "round " << round;
    const std::vector<int> colors =
        recolor(instance.racks, instance.colors, instance.usable, instance.flows);
    const int found = recolored(instance, colors);
    ASSERT_GE(found, *fewest) << "round " << round;
    ++gaps[found - *fewest];
    ++instances;
    total += found;
    fewest_total += *fewest;
  }
  std::string text;
  for (const auto& [gap, count] : gaps) {
    text += " +" + std::to_string(gap) + ": " + std::to_string(count);
  }
  std::printf("recoloured above the fewest, of %d:%s (sum %d, fewest %d)\n", instances,
              text.c_str(), total, fewest_total);
  EXPECT_LE(total, fewest_total + fewest_total / 10 + 1);
}

/// Racks with nested sets of spines, as unequal and failed uplinks give them, within their bounds.
Instance uneven_cluster(std::mt19937& random, size_t most_flows, bool nested) {
  Instance instance;
  instance.racks = 3 + random() % 4;
  instance.colors = 3 + static_cast<int>(random() % 3);
  for (size_t r = 0; r < instance.racks; ++r) {
    const uint64_t all = (uint64_t{1} << instance.colors) - 1;
    uint64_t usable = (uint64_t{2} << (random() % static_cast<uint32_t>(instance.colors))) - 1;
    if (!nested) usable = all & ~(uint64_t{1} << (random() % 6));
    instance.usable.push_back(usable);
  }
  std::vector<int> out(instance.racks, 0), in(instance.racks, 0);
  for (int tries = 0; instance.flows.size() < most_flows && tries < 300; ++tries) {
    const size_t from = random() % instance.racks, to = random() % instance.racks;
    if (from == to || (instance.usable[from] & instance.usable[to]) == 0) continue;
    if (out[from] == std::popcount(instance.usable[from])) continue;
    if (in[to] == std::popcount(instance.usable[to])) continue;
    ++out[from];
    ++in[to];
    instance.flows.push_back({RackId(from), RackId(to), -1});
  }
  return instance;
}

TEST(ShareLeastAgainstTheIlp, IsolatesExactlyWhereThatIsPossible) {
  std::mt19937 random(2);
  int isolated = 0, proved = 0, instances = 0;
  for (int round = 0; round < 400; ++round) {
    const Instance instance = uneven_cluster(random, 4 + random() % 24, round % 2 == 0);
    const bool possible = fewest_recolored(instance).has_value();
    SharingProblem problem{instance.racks, instance.colors, instance.usable, {}};
    for (const FormerColor& flow : instance.flows) problem.flows.push_back({flow.from, flow.to});
    std::vector<int> colors =
        recolor(instance.racks, instance.colors, instance.usable, instance.flows);
    const bool sure = share_least(problem, colors);
    const bool found = meeting_pairs(problem, colors) == 0;
    ASSERT_EQ(found, recolored(instance, colors) == 0);
    ASSERT_FALSE(found && !possible);
    ASSERT_TRUE(found || !possible || !sure) << "proved what is wrong in round " << round;
    ++instances;
    isolated += possible;
    proved += sure;
    EXPECT_EQ(found, possible) << "round " << round << ", flows " << instance.flows.size();
  }
  std::printf("%d instances, %d can be isolated and are, %d proved\n", instances, isolated, proved);
}

}  // namespace
}  // namespace monkeytree
