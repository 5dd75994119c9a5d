#pragma once

#include <string>
#include <vector>

namespace monkeytree {

/// What happened on a fabric, for a picture. Times are seconds from the beginning.
struct Timeline {
  struct Sample {
    double at = 0, until = 0;
    std::vector<double> used;  ///< share of its capacity, by uplink
  };
  struct Iteration {
    int job = 0;
    double at = 0, seconds = 0;
  };
  struct Mark {
    double at = 0;
    std::string text;
  };
  std::vector<std::string> uplinks, jobs;  ///< names
  std::vector<Sample> samples;
  std::vector<Iteration> iterations;
  std::vector<Mark> marks;  ///< phases and moves
};

/// A picture on its own: how full each uplink was, how long iterations took, and the marks.
std::string timeline_svg(const Timeline& timeline);

}  // namespace monkeytree
