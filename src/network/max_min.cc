#include "network/max_min.h"

#include <algorithm>
#include <limits>

namespace monkeytree {
namespace {

struct Filling {
  double room = 0;    ///< R_l
  double weight = 0;  ///< W_l
  double level() const { return room / weight; }
};

}  // namespace

std::vector<double> exact_max_min(const IdVector<LinkId, double>& capacities,
                                  std::span<const MaxMinFlow> flows) {
  std::vector<double> rates(flows.size(), 0);
  std::vector<bool> fixed(flows.size(), false);
  IdVector<LinkId, Filling> links(capacities.size());
  for (size_t unfixed = flows.size(); unfixed > 0;) {
    for (const LinkId l : links.keys()) links[l] = {capacities[l], 0};
    for (size_t f = 0; f < flows.size(); ++f) {
      for (const LinkUse& use : flows[f].uses) {
        Filling& link = links[use.link];
        (fixed[f] ? link.room : link.weight) +=
            fixed[f] ? -use.coefficient * rates[f] : use.coefficient;
      }
    }
    double lambda = std::numeric_limits<double>::infinity();
    for (size_t f = 0; f < flows.size(); ++f) {
      if (!fixed[f]) lambda = std::min(lambda, flows[f].cap);
    }
    for (const Filling& link : links) {
      if (link.weight > 0) lambda = std::min(lambda, link.level());
    }
    for (size_t f = 0; f < flows.size(); ++f) {
      if (fixed[f]) continue;
      bool stops = flows[f].cap == lambda;
      for (const LinkUse& use : flows[f].uses) stops |= links[use.link].level() == lambda;
      if (!stops) continue;
      rates[f] = lambda;
      fixed[f] = true;
      --unfixed;
    }
  }
  return rates;
}

std::vector<double> max_min(const IdVector<LinkId, double>& capacities,
                            std::span<const MaxMinFlow> flows) {
  std::vector<double> rates = exact_max_min(capacities, flows);
  for (double& rate : rates) rate = quantized_rate(rate);
  return rates;
}

}  // namespace monkeytree
