#include "planning/cost_network.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace monkeytree {
namespace {

int capped(int64_t cost) { return static_cast<int>(std::min<int64_t>(cost, kNever)); }

/// Strikes out values that another value of the same variable makes superfluous, then drops the
/// variables that have one value left from every scope.
class Reduction {
 public:
  explicit Reduction(const CostNetwork& network)
      : tables_(network.tables), values_(network.domain.size()), of_(network.domain.size()) {
    for (size_t x = 0; x < values_.size(); ++x) {
      values_[x].resize(network.domain[x]);
      std::iota(values_[x].begin(), values_[x].end(), 0);
    }
    for (size_t t = 0; t < tables_.size(); ++t) {
      for (int x : tables_[t].scope) of_[x].push_back(static_cast<int>(t));
    }
  }

  void run(int64_t work_limit) {
    std::vector<char> queued(values_.size(), 1);
    std::vector<int> queue(values_.size());
    std::iota(queue.begin(), queue.end(), 0);
    for (size_t head = 0; head < queue.size() && work_ < work_limit; ++head) {
      const int x = queue[head];
      queued[x] = 0;
      if (!strike(x)) continue;
      for (int t : of_[x]) {
        for (int y : tables_[t].scope) {
          if (std::exchange(queued[y], 1) == 0) queue.push_back(y);
        }
      }
    }
    for (CostTable& table : tables_) drop_settled(table);
  }

  const std::vector<CostTable>& tables() const { return tables_; }
  const std::vector<std::vector<int>>& values() const { return values_; }
  int64_t work() const { return work_; }

 private:
  int size(int x) const { return static_cast<int>(values_[x].size()); }

  /// Removes every value of x that another one beats or equals; true if one went.
  bool strike(int x) {
    bool any = false;
    for (int a = size(x) - 1; a >= 0; --a) {
      for (int b = 0; b < size(x); ++b) {
        if (a == b || !superfluous(x, a, b)) continue;
        remove(x, a);
        any = true;
        break;
      }
    }
    return any;
  }

  /// Whether replacing value a of x by b never raises the sum.
  bool superfluous(int x, int a, int b) {
    int64_t gain = 0;  // least of cost(a) − cost(b) over all the neighbours can do
    for (int t : of_[x]) {
      const CostTable& table = tables_[t];
      const auto [inner, outer] = strides(table, x);
      int64_t least = kNever;
      for (int o = 0; o < outer; ++o) {
        const int* row = table.cost.data() + static_cast<int64_t>(o) * inner * size(x);
        for (int i = 0; i < inner; ++i) {
          const int with_a = row[a * inner + i], with_b = row[b * inner + i];
          if (with_a < kNever) {
            least = std::min<int64_t>(
                least, with_b >= kNever ? -int64_t{kNever} * 1'000'000 : with_a - with_b);
          }
        }
      }
      work_ += inner * outer;
      gain += least;
    }
    return gain >= 0;
  }

  /// Cells between two values of x in a table, and the number of such runs.
  std::pair<int, int> strides(const CostTable& table, int x) const {
    int inner = 1, outer = 1;
    bool before = true;
    for (int y : table.scope) {
      if (y == x) {
        before = false;
      } else {
        (before ? inner : outer) *= size(y);
      }
    }
    return {inner, outer};
  }

  void remove(int x, int a) {
    for (int t : of_[x]) {
      CostTable& table = tables_[t];
      const auto [inner, outer] = strides(table, x);
      std::vector<int> kept;
      kept.reserve(table.cost.size());
      for (int o = 0; o < outer; ++o) {
        for (int v = 0; v < size(x); ++v) {
          const int* run = table.cost.data() + (static_cast<int64_t>(o) * size(x) + v) * inner;
          if (v != a) kept.insert(kept.end(), run, run + inner);
        }
      }
      table.cost = std::move(kept);
    }
    values_[x].erase(values_[x].begin() + a);
  }

  void drop_settled(CostTable& table) {
    std::erase_if(table.scope, [&](int x) { return size(x) == 1; });
  }

  std::vector<CostTable> tables_;
  std::vector<std::vector<int>> values_;  ///< values left of each variable
  std::vector<std::vector<int>> of_;      ///< tables of each variable
  int64_t work_ = 0;
};

/// One connected component: variables 0 … n−1, solved by elimination and search.
class Component {
 public:
  Component(std::vector<int> domain, std::vector<CostTable> tables, int64_t work_limit)
      : domain_(std::move(domain)), work_limit_(work_limit), best_(domain_.size(), 0) {
    const int n = static_cast<int>(domain_.size());
    choose_order(tables);
    choose_table_limit();
    located_.resize(n);
    sent_.resize(n);
    for (CostTable& table : tables) locate(std::move(table));
    for (int p = 0; p < n; ++p) eliminate(p);
    value_.resize(n);
    if (lower_bound_ < kNever) search(n - 1, lower_bound_);
    if (!out_of_work_) lower_bound_ = best_cost_;
  }

  int lower_bound() const { return lower_bound_; }
  int cost() const { return best_cost_; }
  const std::vector<int>& best() const { return best_; }
  int64_t work() const { return work_; }

 private:
  struct Table {
    std::vector<int> scope;
    std::vector<int> stride;
    std::vector<int> cost;
  };

  /// Neighbours from which on no table over all of them is thought of.
  static constexpr size_t kDense = 40;

  /// Which variable goes next: the one whose elimination ties the fewest pairs of neighbours that
  /// were not tied, then the one with the smallest table of best replies, then the lowest.
  void choose_order(const std::vector<CostTable>& tables) {
    const int n = static_cast<int>(domain_.size());
    std::vector<std::vector<int>> near(n);
    for (const CostTable& table : tables) tie(table.scope, near);
    using Rank = std::tuple<int, double, int>;
    std::vector<Rank> rank(n);
    std::set<Rank> queue;
    const auto weigh = [&](int x) {
      double cells = domain_[x];
      int untied = 0;
      for (size_t i = 0; i < near[x].size(); ++i) {
        const std::vector<int>& far = near[near[x][i]];
        cells *= domain_[near[x][i]];
        for (size_t j = 0; j < i; ++j) {
          untied += !std::binary_search(far.begin(), far.end(), near[x][j]);
        }
      }
      rank[x] = {untied, cells, x};
      queue.insert(rank[x]);
    };
    for (int x = 0; x < n; ++x) weigh(x);
    position_.assign(n, -1);
    for (int p = 0; p < n; ++p) {
      const auto [untied, cells, next] = *queue.begin();
      if (near[next].size() > kDense) {
        // No table over so many neighbours fits, so what is left may come in any order.
        for (const auto& [ignored, some_cells, x] : queue) {
          position_[x] = p++;
          order_.push_back(x);
          bucket_cells_.push_back(some_cells);
        }
        return;
      }
      queue.erase(queue.begin());
      position_[next] = p;
      order_.push_back(next);
      bucket_cells_.push_back(cells);
      for (int y : near[next]) std::erase(near[y], next);
      tie(near[next], near);
      std::set<int> changed(near[next].begin(), near[next].end());
      if (untied > 0) {
        for (int y : near[next]) changed.insert(near[y].begin(), near[y].end());
      }
      for (int y : changed) {
        queue.erase(rank[y]);
        weigh(y);
      }
    }
  }

  /// Makes neighbours of all variables of the scope.
  static void tie(std::vector<int> scope, std::vector<std::vector<int>>& near) {
    std::sort(scope.begin(), scope.end());
    for (int x : scope) {
      std::vector<int> both;
      std::set_union(near[x].begin(), near[x].end(), scope.begin(), scope.end(),
                     std::back_inserter(both));
      std::erase(both, x);
      near[x] = std::move(both);
    }
  }

  /// The largest power of two that spends at most half of the work on tables.
  void choose_table_limit() {
    const auto spent = [&](int64_t limit) {
      double sum = 0;
      for (double cells : bucket_cells_) sum += std::min(cells, static_cast<double>(limit));
      return sum;
    };
    table_limit_ = int64_t{1} << 24;
    while (table_limit_ > 64 && spent(table_limit_) > static_cast<double>(work_limit_) / 2) {
      table_limit_ /= 2;
    }
  }

  void locate(CostTable table) {
    Table out{std::move(table.scope), {}, std::move(table.cost)};
    int first = static_cast<int>(domain_.size()), stride = 1;
    for (int x : out.scope) {
      out.stride.push_back(stride);
      stride *= domain_[x];
      first = std::min(first, position_[x]);
    }
    if (out.scope.empty()) {
      lower_bound_ = capped(int64_t{lower_bound_} + out.cost[0]);
    } else {
      located_[first].push_back(static_cast<int>(tables_.size()));
    }
    tables_.push_back(std::move(out));
  }

  int64_t cells(const std::vector<int>& scope) const {
    int64_t product = 1;
    for (int x : scope) product = std::min<int64_t>(product * domain_[x], int64_t{1} << 40);
    return product;
  }

  /// Replaces the variable at position p by tables of its best replies: one where the bucket is
  /// small enough, else one for each part of it.
  void eliminate(int p) {
    std::vector<int> bucket = located_[p];
    std::stable_sort(bucket.begin(), bucket.end(), [&](int a, int b) {
      return tables_[a].scope.size() > tables_[b].scope.size();
    });
    std::vector<std::pair<std::vector<int>, std::vector<int>>> parts;  // scope, tables
    for (int t : bucket) {
      std::vector<int> scope = tables_[t].scope;
      std::sort(scope.begin(), scope.end());
      bool placed = false;
      for (auto& [whole, members] : parts) {
        std::vector<int> both;
        std::set_union(whole.begin(), whole.end(), scope.begin(), scope.end(),
                       std::back_inserter(both));
        if (cells(both) > table_limit_ && both.size() > whole.size()) continue;
        whole = std::move(both);
        members.push_back(t);
        placed = true;
        break;
      }
      if (!placed) parts.push_back({scope, {t}});
    }
    for (const auto& [scope, members] : parts) send(p, scope, members);
  }

  void send(int p, const std::vector<int>& scope, const std::vector<int>& members) {
    const int x = order_[p];
    CostTable message;
    for (int y : scope) {
      if (y != x) message.scope.push_back(y);
    }
    const std::vector<int>& others = message.scope;
    std::vector<std::vector<int>> step(members.size());
    std::vector<int> own(members.size()), at(members.size(), 0);
    for (size_t m = 0; m < members.size(); ++m) {
      const Table& table = tables_[members[m]];
      const auto stride_of = [&](int y) {
        const auto found = std::find(table.scope.begin(), table.scope.end(), y);
        return found == table.scope.end() ? 0 : table.stride[found - table.scope.begin()];
      };
      own[m] = stride_of(x);
      for (int y : others) step[m].push_back(stride_of(y));
    }
    const int64_t count = cells(others);
    message.cost.reserve(count);
    std::vector<int> digit(others.size(), 0);
    for (int64_t cell = 0; cell < count; ++cell) {
      int64_t least = kNever;
      for (int v = 0; v < domain_[x]; ++v) {
        int64_t sum = 0;
        for (size_t m = 0; m < members.size(); ++m) {
          sum += tables_[members[m]].cost[at[m] + v * own[m]];
        }
        least = std::min(least, sum);
      }
      message.cost.push_back(static_cast<int>(least));
      for (size_t i = 0; i < others.size(); ++i) {
        const bool wraps = ++digit[i] == domain_[others[i]];
        const int by = wraps ? 1 - domain_[others[i]] : 1;
        for (size_t m = 0; m < members.size(); ++m) at[m] += by * step[m][i];
        if (!wraps) break;
        digit[i] = 0;
      }
    }
    work_ += count * domain_[x] * static_cast<int64_t>(members.size());
    sent_[p].push_back(static_cast<int>(tables_.size()));
    locate(std::move(message));
  }

  int64_t look_up(int t) const {
    const Table& table = tables_[t];
    int cell = 0;
    for (size_t i = 0; i < table.scope.size(); ++i)
      cell += table.stride[i] * value_[table.scope[i]];
    return table.cost[cell];
  }

  /// Gives the variable at position p its values, best first; `bound` is the least that the values
  /// given so far can lead to.
  void search(int p, int64_t bound) {
    if (p < 0) {
      best_cost_ = static_cast<int>(bound);
      best_ = value_;
      return;
    }
    const int x = order_[p];
    // Tables sent from here have done their duty: the tables located here say the same, and more.
    for (int t : sent_[p]) bound -= look_up(t);
    std::vector<std::pair<int64_t, int>> choices;
    for (int v = 0; v < domain_[x]; ++v) {
      value_[x] = v;
      int64_t with_v = bound;
      for (int t : located_[p]) with_v += look_up(t);
      if (with_v < best_cost_) choices.push_back({with_v, v});
      work_ += static_cast<int64_t>(located_[p].size());
    }
    std::sort(choices.begin(), choices.end());
    for (const auto& [with_v, v] : choices) {
      if (with_v >= best_cost_) return;
      if (work_ > (best_cost_ < kNever ? work_limit_ : 2 * work_limit_)) {
        out_of_work_ = true;
        return;
      }
      value_[x] = v;
      search(p - 1, with_v);
      if (best_cost_ == lower_bound_) return;
    }
  }

  std::vector<int> domain_;
  int64_t work_limit_;  ///< twice as much where nothing is found
  int64_t table_limit_ = 0;
  std::vector<int> order_, position_;
  std::vector<double> bucket_cells_;  ///< of each position, were no bucket split
  std::vector<Table> tables_;
  std::vector<std::vector<int>> located_;  ///< tables whose first variable in the order is here
  std::vector<std::vector<int>> sent_;     ///< tables of best replies made here
  int lower_bound_ = 0;
  int best_cost_ = kNever;
  std::vector<int> best_, value_;
  int64_t work_ = 0;
  bool out_of_work_ = false;
};

/// For each variable, the least variable of its connected component.
std::vector<int> component_roots(size_t variables, const std::vector<CostTable>& tables) {
  std::vector<int> parent(variables);
  std::iota(parent.begin(), parent.end(), 0);
  const auto root = [&](int x) {
    while (parent[x] != x) x = parent[x] = parent[parent[x]];
    return x;
  };
  for (const CostTable& table : tables) {
    for (int x : table.scope) {
      const int a = root(x), b = root(table.scope[0]);
      parent[std::max(a, b)] = std::min(a, b);
    }
  }
  for (size_t x = 0; x < variables; ++x) parent[x] = root(static_cast<int>(x));
  return parent;
}

}  // namespace

CostMinimum minimise(const CostNetwork& network, int64_t work_limit) {
  Reduction reduced(network);
  reduced.run(work_limit / 2);
  const size_t n = network.domain.size();
  const std::vector<int> root = component_roots(n, reduced.tables());
  std::vector<int> component(n, -1), local(n, -1);
  std::vector<std::vector<int>> members;
  for (size_t x = 0; x < n; ++x) {
    if (reduced.values()[x].size() < 2) continue;
    // A root has a choice too: variables without one have left every scope.
    int& number = component[root[x]];
    if (number < 0) {
      number = static_cast<int>(members.size());
      members.emplace_back();
    }
    component[x] = number;
    local[x] = static_cast<int>(members[number].size());
    members[number].push_back(static_cast<int>(x));
  }
  const int count = static_cast<int>(members.size());
  std::vector<std::vector<CostTable>> tables(count);
  int64_t lower_bound = 0, cost = 0;
  std::vector<int> failing;  // one variable of each table or component that allows nothing
  for (size_t t = 0; t < reduced.tables().size(); ++t) {
    const CostTable& table = reduced.tables()[t];
    if (table.scope.empty()) {
      lower_bound += table.cost[0];
      cost += table.cost[0];
      const std::vector<int>& scope = network.tables[t].scope;
      if (table.cost[0] >= kNever && !scope.empty()) failing.push_back(scope[0]);
      continue;
    }
    CostTable renamed = table;
    for (int& x : renamed.scope) x = local[x];
    tables[component[table.scope[0]]].push_back(std::move(renamed));
  }

  CostMinimum out;
  out.work = reduced.work();
  for (size_t x = 0; x < n; ++x) out.value.push_back(reduced.values()[x][0]);
  // An even share of the work that is left, the smallest component first: what the easy ones do not
  // use is there for the hard ones.
  std::vector<int> turn(count);
  std::iota(turn.begin(), turn.end(), 0);
  std::stable_sort(turn.begin(), turn.end(),
                   [&](int a, int b) { return members[a].size() < members[b].size(); });
  for (int i = 0; i < count; ++i) {
    const int c = turn[i];
    std::vector<int> domain;
    for (int x : members[c]) domain.push_back(static_cast<int>(reduced.values()[x].size()));
    const int64_t share = std::max<int64_t>((work_limit - out.work) / (count - i), 1);
    const Component solved(std::move(domain), std::move(tables[c]), share);
    lower_bound += solved.lower_bound();
    cost += solved.cost();
    out.work += solved.work();
    out.largest = std::max(out.largest, static_cast<int>(members[c].size()));
    if (solved.lower_bound() >= kNever) failing.push_back(members[c][0]);
    for (size_t j = 0; j < members[c].size(); ++j) {
      out.value[members[c][j]] = reduced.values()[members[c][j]][solved.best()[j]];
    }
  }
  const std::vector<int> origin = component_roots(n, network.tables);
  std::vector<char> stuck(n, 0);
  for (int x : failing) stuck[origin[x]] = 1;
  for (size_t x = 0; x < n; ++x) {
    if (stuck[origin[x]] != 0) out.stuck.push_back(static_cast<int>(x));
  }
  out.lower_bound = capped(lower_bound);
  out.cost = capped(cost);
  return out;
}

}  // namespace monkeytree
