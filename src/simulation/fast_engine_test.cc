#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "simulation/engine.h"
#include "simulation/programs.h"

// The fast engine against the plain one: the same calls, the same events at the same microsecond.
namespace monkeytree {
namespace {

int draw(RandomSequence& random, int low, int high) {
  return low + static_cast<int>(random.below(static_cast<uint64_t>(high - low + 1)));
}

/// Small models whose flows last about as long as their computations.
std::vector<Model> small_models(RandomSequence& random, int gpus) {
  const auto bytes = [&] { return static_cast<int64_t>(draw(random, 1, 60'000)) * 997; };
  std::vector<Model> models;
  const auto add = [&](std::vector<Phase> phases) {
    Model model;
    model.name = "m" + std::to_string(models.size());
    model.phases = std::move(phases);
    models.push_back(std::move(model));
  };
  add({Compute{draw(random, 0, 900)}, AllReduce{bytes()}});
  add({Compute{draw(random, 1, 900)}, StridedRing{bytes(), 2}});
  add({Compute{draw(random, 1, 300)}, AllToAllRing{bytes() * gpus}, Compute{draw(random, 1, 300)},
       AllToAllRing{bytes() * gpus}, AllReduce{bytes()}});
  Pipeline pipeline;
  pipeline.stages = 2;
  pipeline.tensor = 2;
  pipeline.microbatches = draw(random, 1, 4);
  pipeline.forward_us = draw(random, 1, 300);
  pipeline.backward_us = draw(random, 1, 300);
  pipeline.activation_bytes = bytes() / 4;
  pipeline.shard_bytes = bytes();
  add({pipeline});
  return models;
}

/// A caller that does the same to both engines, drawn at random.
class Drawn {
 public:
  Drawn(uint64_t seed, std::optional<SglbRule> sglb, bool spray) : random_(seed) {
    fabric_.gpus_per_node = 2;
    fabric_.gpus_per_rack = 4 * draw(random_, 1, 2);
    fabric_.gpus = fabric_.gpus_per_rack * draw(random_, 2, 4);
    fabric_.spines = draw(random_, 1, 3);
    fabric_.nvlink = random_.below(3) == 0;
    fabric_.spray = spray;
    sglb_ = sglb.has_value();
    const EngineOptions options{fabric_, sglb};
    fast_ = make_fast_engine(options);
    plain_ = make_plain_engine(options);
    for (int n = 0; n < fabric_.gpus / fabric_.gpus_per_node; ++n) free_.insert(n);
    Scenario scenario;
    scenario.fabric = fabric_;
    for (const int gpus : {4, 8}) {
      for (const Model& model : small_models(random_, gpus)) {
        programs_.push_back(std::make_unique<Program>(program_of(model, gpus, scenario)));
      }
    }
  }

  void run(int actions) {
    for (int i = 0; i < actions && !testing::Test::HasFailure(); ++i) {
      act();
      // Until something ends, at times until a moment before.
      const Time until = now_ + static_cast<Time>(random_.below(20'000));
      for (int notices = draw(random_, 0, 3); notices >= 0; --notices) {
        if (!step(until)) break;
      }
    }
    do {
      for (const int job : std::set<int>(stopped_)) resume(job);
    } while (!testing::Test::HasFailure() && step(kNever));
    EXPECT_TRUE(running_.empty() && stopping_.empty() && stopped_.empty());
    EXPECT_GT(ended_, 0);
  }

 private:
  struct Job {
    const Program* program;
    std::vector<int> nodes;
  };

  std::vector<int> hosts(const Job& job) {
    std::vector<int> list;
    for (const int node : job.nodes) {
      for (int i = 0; i < fabric_.gpus_per_node; ++i) {
        list.push_back(node * fabric_.gpus_per_node + i);
      }
    }
    return list;
  }

  PairSpines spines(const Job& job) {
    const std::vector<int> at = hosts(job);
    PairSpines spines;
    for (const RankPair& pair : job.program->pairs) {
      const bool crosses = fabric_.rack_of(at[static_cast<size_t>(pair.from)]) !=
                           fabric_.rack_of(at[static_cast<size_t>(pair.to)]);
      const int spine = fabric_.spray ? 0 : draw(random_, 0, fabric_.spines - 1);
      spines.push_back(static_cast<int16_t>(crosses ? spine : -1));
    }
    return spines;
  }

  std::vector<int> take(size_t count) {
    std::vector<int> nodes;
    while (nodes.size() < count) {
      auto at = free_.begin();
      std::advance(at, static_cast<long>(random_.below(free_.size())));
      nodes.push_back(*at);
      free_.erase(at);
    }
    std::sort(nodes.begin(), nodes.end());
    return nodes;
  }

  void act() {
    switch (random_.below(6)) {
      case 0:
      case 1: {
        const Program& program = *programs_[random_.below(programs_.size())];
        const auto count = static_cast<size_t>(program.gpus / fabric_.gpus_per_node);
        if (free_.size() < count) return;
        jobs_.push_back({&program, take(count)});
        const int job = static_cast<int>(jobs_.size()) - 1;
        running_.insert(job);
        const int iterations = draw(random_, 1, 12);
        const PairSpines routes = spines(jobs_.back());
        for (Engine* engine : {fast_.get(), plain_.get()}) {
          engine->start(job, program, hosts(jobs_.back()), routes, iterations);
        }
        return;
      }
      case 2:
        if (running_.empty()) return;
        for (Engine* engine : {fast_.get(), plain_.get()}) engine->stop(*running_.begin());
        stopping_.insert(*running_.begin());
        running_.erase(running_.begin());
        return;
      case 3: {
        std::vector<int> all(running_.begin(), running_.end());
        all.insert(all.end(), stopping_.begin(), stopping_.end());
        if (all.empty()) return;
        const int job = all[random_.below(all.size())];
        const PairSpines routes = spines(jobs_[static_cast<size_t>(job)]);
        for (Engine* engine : {fast_.get(), plain_.get()}) engine->set_routes(job, routes);
        return;
      }
      case 4:
        if (!stopped_.empty()) resume(*stopped_.begin());
        return;
      case 5: {
        Transfer transfer;
        transfer.job = draw(random_, 0, 9);
        transfer.from_host = draw(random_, 0, fabric_.gpus - 1);
        transfer.to_host = draw(random_, 0, fabric_.gpus - 1);
        transfer.bytes = draw(random_, 0, 100'000) * 1009LL;
        if (fabric_.rack_of(transfer.from_host) != fabric_.rack_of(transfer.to_host)) {
          transfer.spine = fabric_.spray ? 0 : draw(random_, 0, fabric_.spines - 1);
        }
        EXPECT_EQ(fast_->transfer(transfer), plain_->transfer(transfer));
        return;
      }
    }
  }

  void resume(int job) {
    Job& it = jobs_[static_cast<size_t>(job)];
    const size_t count = it.nodes.size();
    free_.insert(it.nodes.begin(), it.nodes.end());
    it.nodes = take(count);
    const PairSpines routes = spines(it);
    for (Engine* engine : {fast_.get(), plain_.get()}) engine->resume(job, hosts(it), routes);
    stopped_.erase(job);
    running_.insert(job);
  }

  struct Ending {
    Time time = 0;
    std::vector<Notice> notices;
    friend bool operator==(const Ending&, const Ending&) = default;
  };

  /// Until a job or a transfer ends, or until `until`.
  static Ending go(Engine& engine, Time until) {
    Ending ending;
    while (ending.notices.empty()) {
      const Time next = engine.next();
      ending.time = std::min(next, until);
      if (ending.time == kNever) break;
      engine.advance(ending.time, ending.notices);
      if (ending.time == until) break;
    }
    return ending;
  }

  /// False where nothing ended.
  bool step(Time until) {
    const Ending fast = go(*fast_, until);
    const Ending ending = go(*plain_, until);
    EXPECT_EQ(fast.time, ending.time) << "after " << now_;
    EXPECT_TRUE(fast == ending) << "after " << now_;
    if (testing::Test::HasFailure()) return false;
    const std::vector<Notice>& plain = ending.notices;
    if (ending.time != kNever) now_ = ending.time;
    ended_ += static_cast<int>(plain.size());
    for (const Notice& notice : plain) {
      if (notice.kind == Notice::kTransfer) continue;
      running_.erase(notice.index);
      stopping_.erase(notice.index);
      if (notice.kind == Notice::kStopped) {
        stopped_.insert(notice.index);
      } else {
        const std::vector<int>& nodes = jobs_[static_cast<size_t>(notice.index)].nodes;
        free_.insert(nodes.begin(), nodes.end());
      }
    }
    return !plain.empty();
  }

  RandomSequence random_;
  int ended_ = 0;
  FabricShape fabric_;
  bool sglb_ = false;
  std::unique_ptr<Engine> fast_, plain_;
  std::vector<std::unique_ptr<Program>> programs_;
  std::set<int> free_, running_, stopping_, stopped_;
  std::vector<Job> jobs_;
  Time now_ = 0;
};

TEST(FastEngine, GivesTheTimesOfThePlainEngine) {
  for (uint64_t seed = 1; seed <= 400 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Drawn(seed, std::nullopt, seed % 5 == 0).run(40);
  }
}

TEST(FastEngine, GivesTheTimesOfThePlainEngineUnderGlobalLoadBalancing) {
  for (uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SglbRule rule;
    rule.tick_us = 500;
    rule.count_self = seed % 2 == 0;
    Drawn(seed, rule, false).run(30);
  }
}

}  // namespace
}  // namespace monkeytree
