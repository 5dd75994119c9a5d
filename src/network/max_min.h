#pragma once

#include <span>
#include <vector>

#include "base/id.h"
#include "network/network.h"

/// Max-min fairness: what it is, why there is exactly one such sharing, and how to find it.
///
/// Given links l with capacity C_l > 0, and flows f with a cap m_f > 0 (perhaps infinite) that take
/// c_lf > 0 times their rate of each link they use, a *sharing* x is feasible where
///
///     0 ≤ x_f ≤ m_f for every flow and Σ_f c_lf · x_f ≤ C_l for every link.
///
/// A feasible x is *max-min fair* where no flow can have more without taking from one that has no
/// more than it: for every feasible y with y_f > x_f there is a g with y_g < x_g ≤ x_f. A link l is
/// a *bottleneck* of f where f uses l, l is full, and no flow on l has more than x_f.
///
/// Theorem. (1) A feasible x is max-min fair if and only if every flow is at its cap or has a
/// bottleneck. (2) There is exactly one such x.
///
/// Proof of (1). Let every flow be at its cap or have a bottleneck, and let y_f > x_f. Then f is
/// not at its cap, so it has a bottleneck l, which is full. As f takes more of l under y, some g on
/// l must take less, y_g < x_g, and x_g ≤ x_f because l is a bottleneck of f. So x is fair.
/// Conversely let f be below its cap without a bottleneck. On each full link of f some flow has
/// more than x_f. Raise f a little, and lower one such flow on each full link by what that needs:
/// small enough, nobody lowered falls to x_f, and all stays feasible. So x is not fair.
///
/// Proof of (2). Two fair sharings x ≠ y: among the flows where they differ, take the f for which
/// min(x_f, y_f) is least, say x_f < y_f. By fairness of x some g has y_g < x_g ≤ x_f, so they
/// differ at g too, and min(x_g, y_g) = y_g < x_f = min(x_f, y_f): a contradiction. The algorithm
/// below shows that there is one.
///
/// Progressive filling. Let all rates rise together, as water does, from *level* 0. A flow is
/// *fixed* once it may rise no more. With F the fixed flows on a link l, its *room* is
/// R_l = C_l − Σ_F c_lf · x_f, its *weight* is W_l = Σ c_lf over the others, and it is full when
/// the water stands at R_l / W_l. So the water rises to
///
///     λ = min( R_l / W_l over links with unfixed flows, m_f over unfixed flows ),
///
/// and there all flows with m_f = λ and all unfixed flows on links with R_l / W_l = λ are fixed at
/// x_f = λ. Each round fixes at least one flow. A flow is fixed at its cap, or by a link l that is
/// full from then on and whose other flows were fixed no higher than λ, earlier or now: l is its
/// bottleneck. By (1) the result is fair.
///
/// Fixing a flow at λ never lowers a level above λ: with R/W ≥ λ also (R − cλ)/(W − c) ≥ λ. And a
/// link with Σ_f c_lf · m_f ≤ C_l never fills before all of its flows are at their caps, so it can
/// be left out. `Network` rests on these two remarks.
namespace monkeytree {

struct MaxMinFlow {
  std::span<const LinkUse> uses;  ///< each link at most once
  double cap = 0;                 ///< bytes/µs
};

/// The fair rates of all flows, by progressive filling, as exact as doubles are: room and weight
/// are summed anew in every round. Flows must have a link or a finite cap. O(rounds · uses), with
/// one round for each rate that occurs.
std::vector<double> exact_max_min(const IdVector<LinkId, double>& capacities,
                                  std::span<const MaxMinFlow> flows);

/// The same, as quantized_rate() of each.
std::vector<double> max_min(const IdVector<LinkId, double>& capacities,
                            std::span<const MaxMinFlow> flows);

}  // namespace monkeytree
