#include "simulation/router.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "routing/coloring.h"
#include "routing/sglb.h"

namespace monkeytree {

Router::Router(const FabricShape& fabric)
    : shape_(fabric),
      up_(static_cast<size_t>(fabric.racks()) * static_cast<size_t>(fabric.spines)),
      down_(up_.size()) {}

void Router::place(int index, const Program& program, std::span<const int> hosts, double work) {
  if (static_cast<size_t>(index) >= jobs_.size()) jobs_.resize(static_cast<size_t>(index) + 1);
  if (jobs_[static_cast<size_t>(index)].program != nullptr) remove(index);
  Job& job = jobs_[static_cast<size_t>(index)];
  job.program = &program;
  job.hosts.assign(hosts.begin(), hosts.end());
  job.work = work;
  job.spines.assign(program.pairs.size(), -1);
  job.crossing.clear();
  for (int p = 0; p < static_cast<int>(program.pairs.size()); ++p) {
    const Ends it = ends(job, p);
    if (it.from_rack != it.to_rack) job.crossing.push_back(p);
  }
  placed(index);
}

void Router::remove(int index) {
  removed(index);
  jobs_[static_cast<size_t>(index)] = Job();
}

Router::Ends Router::ends(const Job& job, int pair) const {
  const RankPair& it = job.program->pairs[static_cast<size_t>(pair)];
  return {shape_.rack_of(job.hosts[static_cast<size_t>(it.from)]),
          shape_.rack_of(job.hosts[static_cast<size_t>(it.to)])};
}

int Router::least_loaded(const Ends& it) {
  int best = 0, best_load = INT32_MAX;
  for (int s = 0; s < shape_.spines; ++s) {
    const int load = std::max(up(it.from_rack, s), down(it.to_rack, s));
    if (load < best_load) {
      best = s;
      best_load = load;
    }
  }
  return best;
}

int Router::choose_for_transfer(int from_host, int to_host, int) {
  return least_loaded({shape_.rack_of(from_host), shape_.rack_of(to_host)});
}

int Router::transfer_spine(int from_host, int to_host, int job) {
  const Ends it{shape_.rack_of(from_host), shape_.rack_of(to_host)};
  if (it.from_rack == it.to_rack) return -1;
  const int spine = choose_for_transfer(from_host, to_host, job);
  count(it, spine, 1);
  transfers_.push_back({it, spine});
  return spine;
}

void Router::end_transfer(int from_host, int to_host, int spine) {
  if (spine < 0) return;
  const Ends it{shape_.rack_of(from_host), shape_.rack_of(to_host)};
  count(it, spine, -1);
  transfers_.erase(std::find_if(transfers_.begin(), transfers_.end(), [&](const Underway& other) {
    return other.ends == it && other.spine == spine;
  }));
}

namespace {

/// Each pair keeps what it gets when its job is placed.
class FixedRouter : public Router {
 public:
  explicit FixedRouter(const FabricShape& fabric) : Router(fabric) {}
  std::vector<int> update() override {
    std::sort(placed_.begin(), placed_.end());
    return std::exchange(placed_, {});
  }

 protected:
  void placed(int index) override {
    Job& job = jobs_[static_cast<size_t>(index)];
    for (const int p : job.crossing) {
      const RankPair& pair = job.program->pairs[static_cast<size_t>(p)];
      job.spines[static_cast<size_t>(p)] =
          static_cast<int16_t>(choose(job.hosts[static_cast<size_t>(pair.from)],
                                      job.hosts[static_cast<size_t>(pair.to)], index));
    }
    placed_.push_back(index);
  }
  void removed(int index) override { std::erase(placed_, index); }
  virtual int choose(int from_host, int to_host, int job) const = 0;

 private:
  std::vector<int> placed_;
};

/// A hash of source, destination and job.
class EcmpRouter final : public FixedRouter {
 public:
  EcmpRouter(const FabricShape& fabric, uint64_t seed) : FixedRouter(fabric), seed_(seed) {}

 private:
  int choose_for_transfer(int from_host, int to_host, int job) override {
    return choose(from_host, to_host, job);
  }
  int choose(int from_host, int to_host, int job) const override {
    const uint64_t hash =
        flow_hash(static_cast<uint64_t>(from_host), static_cast<uint64_t>(to_host),
                  static_cast<uint64_t>(job) ^ (seed_ << 32));
    return static_cast<int>(hash % static_cast<uint64_t>(shape_.spines));
  }
  uint64_t seed_;
};

/// Spraying loads all spines alike, and under global load balancing the engine chooses.
class NoRouter final : public FixedRouter {
 public:
  explicit NoRouter(const FabricShape& fabric) : FixedRouter(fabric) {}

 private:
  int choose_for_transfer(int, int, int) override { return 0; }
  int choose(int, int, int) const override { return 0; }
};

/// Crux's greedy routing, without its priorities: at every arrival and departure all routes anew,
/// the jobs with the most computation for their communication first, each flow by the spine whose
/// fuller link carries the fewest flows so far.
class CruxRouter final : public Router {
 public:
  CruxRouter(const FabricShape& fabric, CruxIntensity intensity)
      : Router(fabric), intensity_(intensity) {}

  std::vector<int> update() override {
    if (!changed_) return {};
    changed_ = false;
    std::vector<int> order;
    for (const auto& [key, job] : ranked_) order.push_back(job);
    std::fill(up_.begin(), up_.end(), 0);
    std::fill(down_.begin(), down_.end(), 0);
    for (const Underway& it : transfers_) count(it.ends, it.spine, 1);
    std::vector<int> others;
    for (const int index : order) {
      Job& job = jobs_[static_cast<size_t>(index)];
      bool differs = std::find(placed_.begin(), placed_.end(), index) != placed_.end();
      for (const int p : job.crossing) {
        const Ends it = ends(job, p);
        const int spine = least_loaded(it);
        count(it, spine, 1);
        int16_t& now = job.spines[static_cast<size_t>(p)];
        differs = differs || now != spine;
        now = static_cast<int16_t>(spine);
      }
      if (differs) others.push_back(index);
    }
    placed_.clear();
    std::sort(others.begin(), others.end());
    return others;
  }

 protected:
  void placed(int index) override {
    ranked_.insert({{-intensity(jobs_[static_cast<size_t>(index)]), index}, index});
    placed_.push_back(index);
    changed_ = true;
  }
  void removed(int index) override {
    ranked_.erase({-intensity(jobs_[static_cast<size_t>(index)]), index});
    std::erase(placed_, index);
    changed_ = true;
  }

 private:
  double intensity(const Job& job) const {
    double total = 0;
    std::vector<double> sent(job.hosts.size());
    for (const RankPair& pair : job.program->pairs) {
      total += static_cast<double>(pair.bytes);
      sent[static_cast<size_t>(pair.from)] += static_cast<double>(pair.bytes);
    }
    const double busiest = sent.empty() ? 0 : *std::max_element(sent.begin(), sent.end());
    const double bytes = intensity_ == CruxIntensity::kTotal ? total : busiest;
    return bytes > 0 ? job.work / bytes : 0;
  }

  CruxIntensity intensity_;
  bool changed_ = false;
  std::map<std::pair<double, int>, int> ranked_;  // most intense first
  std::vector<int> placed_;
};

/// Edge colouring of the ring flows between racks, kept while jobs come and go. Other flows take
/// what the rings leave: the spine whose fuller link carries the fewest flows, chosen again where a
/// ring came in their way; or, as the authors do, round-robin over the spines, per source rack.
class PerfectRouter final : public Router {
 public:
  PerfectRouter(const FabricShape& fabric, bool round_robin)
      : Router(fabric),
        round_robin_(round_robin),
        racks_(static_cast<size_t>(fabric.racks())),
        coloring_(static_cast<size_t>(fabric.racks()), fabric.spines),
        next_(static_cast<size_t>(fabric.racks())) {}

  std::vector<int> update() override {
    std::vector<int> others = std::exchange(placed_, {});
    for (const auto& [index, edges] : edges_) {
      Job& job = jobs_[static_cast<size_t>(index)];
      bool differs = false;
      for (const auto& [pair, edge] : edges) {
        const int spine = coloring_.color(edge);
        int16_t& now = job.spines[static_cast<size_t>(pair)];
        if (now == spine) continue;
        const Ends it = ends(job, pair);
        if (now >= 0) count(it, now, -1);
        count(it, spine, 1);
        now = static_cast<int16_t>(spine);
        differs = true;
        changed_racks_.insert({it.from_rack, it.to_rack});
      }
      if (differs) others.push_back(index);
    }
    std::set<int> beside;  // jobs with other flows in racks where something changed
    for (const int rack : std::exchange(changed_racks_, {})) {
      const std::set<int>& here = racks_[static_cast<size_t>(rack)];
      beside.insert(here.begin(), here.end());
    }
    for (const int index : beside) {
      if (step_aside(index)) others.push_back(index);
    }
    std::sort(others.begin(), others.end());
    others.erase(std::unique(others.begin(), others.end()), others.end());
    return others;
  }

 protected:
  void placed(int index) override {
    Job& job = jobs_[static_cast<size_t>(index)];
    for (const int p : job.crossing) {
      const Ends it = ends(job, p);
      if (job.program->pairs[static_cast<size_t>(p)].ring) {
        const EdgeId edge = coloring_.insert(RackId(it.from_rack), RackId(it.to_rack));
        edges_[index].emplace_back(p, edge);
      } else {
        others_[index].push_back(p);
        racks_[static_cast<size_t>(it.from_rack)].insert(index);
        racks_[static_cast<size_t>(it.to_rack)].insert(index);
        if (round_robin_) {
          int& next = next_[static_cast<size_t>(it.from_rack)];
          count(it, next, 1);
          job.spines[static_cast<size_t>(p)] = static_cast<int16_t>(next);
          next = (next + 1) % shape_.spines;
        }
      }
    }
    for (const int p : job.crossing) {
      const Ends it = ends(job, p);
      changed_racks_.insert({it.from_rack, it.to_rack});
    }
    placed_.push_back(index);
  }
  void removed(int index) override {
    Job& job = jobs_[static_cast<size_t>(index)];
    for (const int p : job.crossing) {
      const int spine = job.spines[static_cast<size_t>(p)];
      if (spine >= 0) count(ends(job, p), spine, -1);
    }
    const auto at = edges_.find(index);
    if (at != edges_.end()) {
      for (const auto& [pair, edge] : at->second) coloring_.remove(edge);
      edges_.erase(at);
    }
    for (const int p : job.crossing) {
      const Ends it = ends(job, p);
      racks_[static_cast<size_t>(it.from_rack)].erase(index);
      racks_[static_cast<size_t>(it.to_rack)].erase(index);
      changed_racks_.insert({it.from_rack, it.to_rack});
    }
    others_.erase(index);
    std::erase(placed_, index);
  }

 private:
  /// Other flows of a job that share a link take a better spine where there is one.
  bool step_aside(int index) {
    if (round_robin_) return false;
    Job& job = jobs_[static_cast<size_t>(index)];
    bool differs = false;
    for (const int p : others_.at(index)) {
      const Ends it = ends(job, p);
      int16_t& now = job.spines[static_cast<size_t>(p)];
      int load = INT32_MAX;
      if (now >= 0) {
        load = std::max(up(it.from_rack, now), down(it.to_rack, now));
        if (load <= 1) continue;
        count(it, now, -1);
      }
      const int best = least_loaded(it);
      const bool better = std::max(up(it.from_rack, best), down(it.to_rack, best)) + 1 < load;
      if (better) now = static_cast<int16_t>(best);
      count(it, now, 1);
      differs = differs || better;
    }
    return differs;
  }

  bool round_robin_;
  std::map<int, std::vector<int>> others_;  // by job: its pairs between racks that are no ring hops
  std::vector<std::set<int>> racks_;        // by rack: jobs with such pairs
  std::set<int> changed_racks_;
  Coloring coloring_;
  std::map<int, std::vector<std::pair<int, EdgeId>>> edges_;  // by job: its ring pairs
  std::vector<int> next_;                                     // by rack: the spine whose turn it is
  std::vector<int> placed_;
};

}  // namespace

std::unique_ptr<Router> make_router(const Scenario& scenario) {
  switch (scenario.system->route) {
    case RouteRule::kEcmp:
      return std::make_unique<EcmpRouter>(scenario.fabric, scenario.seed);
    case RouteRule::kCrux:
      return std::make_unique<CruxRouter>(scenario.fabric, scenario.crux_intensity);
    case RouteRule::kPerfect:
      return std::make_unique<PerfectRouter>(scenario.fabric, scenario.paper_rules);
    case RouteRule::kSglb:
    case RouteRule::kSpray:
      return std::make_unique<NoRouter>(scenario.fabric);
  }
  return nullptr;
}

}  // namespace monkeytree
