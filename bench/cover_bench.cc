/// cover_bench [--smoke]: the lower bound of cold states: whether it is exact (least = found), how
/// far racks are tied together (shared groups; most variables in one component), CPU time, and what
/// random strains leave unproved in which time. docs/performance.md says what it shows.

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string_view>
#include <vector>

#include "bench/churn.h"
#include "cluster/fragmentation.h"
#include "planning/cover.h"

namespace monkeytree::bench {
namespace {

double cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

struct Relaxation {
  std::vector<CoverRack> racks;
  std::vector<CoverGroup> groups;
};

/// For a cluster of one node class where every worker may move.
Relaxation relaxation_of(const Snapshot& snapshot) {
  Relaxation out;
  const IdVector<RackId, int> degrees = fragmentation(snapshot);
  std::vector<int> capacity;
  for (RackId t : snapshot.racks.keys()) {
    capacity.push_back(static_cast<int>(snapshot.racks[t].nodes.size()));
    out.racks.push_back({degrees[t] - snapshot.racks[t].bound(), capacity.back()});
  }
  for (GroupId g : snapshot.groups.keys()) {
    const std::vector<RackId> racks = racks_of(snapshot, g);
    const int size = static_cast<int>(snapshot.groups[g].workers.size());
    CoverGroup group{snapshot.groups[g].rings, {}};
    for (RackId t : racks) {
      group.entries.push_back({t.value, 0, true, size <= capacity[t.value]});
    }
    for (int worker = 0; worker < size; ++worker) {
      const RackId t = snapshot.rack_of(g, worker);
      --out.racks[t.value].free_slots;
      const auto at = std::lower_bound(racks.begin(), racks.end(), t) - racks.begin();
      ++group.entries[at].workers;
    }
    if (racks.size() > 1) out.groups.push_back(std::move(group));
  }
  return out;
}

double median_ms(const Relaxation& relaxation, CoverResult& result) {
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const double start = cpu_ms();
    result = solve_cover(relaxation.racks, relaxation.groups);
    times.push_back(cpu_ms() - start);
  }
  std::sort(times.begin(), times.end());
  return times[2];
}

struct Setting {
  const char* label;
  int uplinks;
  bool weighted;
  JobMix mix;
};

void print_row(const Setting& setting, double fill, int racks, int over) {
  ChurnOptions options;
  options.racks = racks;
  options.uplinks = setting.uplinks;
  options.weighted = setting.weighted;
  options.mix = setting.mix;
  options.fill = fill;
  options.scattered = 50;
  Churn churn(options);
  for (int event = 0; event < 20 * racks && churn.racks_over() < over; ++event) churn.arrive();
  Relaxation relaxation = relaxation_of(churn.snapshot());

  CoverResult result;
  const double plain_ms = median_ms(relaxation, result);
  Random random(1);
  for (CoverGroup& group : relaxation.groups) {
    for (CoverEntry& entry : group.entries) entry.strain = random.below(8);
  }
  CoverResult strained;
  const double strained_ms = median_ms(relaxation, strained);
  fmt::print("{:<16} {:>4.2f} {:>5} {:>7} {:>6} {:>6} {:>7} {:>7} {:>4} {:>8.2f} {:>7} {:>8.2f}\n",
             setting.label, fill, churn.racks_over(), relaxation.groups.size(), result.lower_bound,
             result.cost, result.shared_groups, result.largest, result.cut_racks, plain_ms,
             strained.cost - strained.lower_bound, strained_ms);
}

}  // namespace
}  // namespace monkeytree::bench

int main(int argc, char** argv) {
  using monkeytree::bench::JobMix;
  using monkeytree::bench::Setting;
  const bool smoke = argc > 1 && std::string_view(argv[1]) == "--smoke";
  const int racks = smoke ? 128 : 2048;
  fmt::print("{:<16} {:>4} {:>5} {:>7} {:>6} {:>6} {:>7} {:>7} {:>4} {:>8} {:>7} {:>8}\n",
             "bound, jobs", "fill", "over", "partial", "least", "found", "shared", "largest", "cut",
             "CPU ms", "str.gap", "CPU ms");
  for (const Setting& setting : {Setting{"2 catalogue", 2, false, JobMix::kCatalogue},
                                 Setting{"2 broad", 2, false, JobMix::kBroad},
                                 Setting{"3 catalogue", 3, false, JobMix::kCatalogue},
                                 Setting{"16 weights 1, 8", 16, true, JobMix::kCatalogue}}) {
    for (double fill : {0.90, 0.97, 1.0}) {
      for (int share : {4, 2}) monkeytree::bench::print_row(setting, fill, racks, racks / share);
    }
  }
  return 0;
}
