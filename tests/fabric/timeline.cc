#include "timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace monkeytree {
namespace {

constexpr double kLeft = 80, kWidth = 860, kTop = 70, kRow = 14, kGap = 40, kPlot = 200;
constexpr std::array<const char*, 6> kColours = {"#0072b2", "#d55e00", "#009e73",
                                                 "#cc79a7", "#e69f00", "#56b4e9"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

class Picture {
 public:
  explicit Picture(const Timeline& timeline) : t_(timeline) {
    for (const Timeline::Sample& sample : t_.samples) end_ = std::max(end_, sample.until);
    for (const Timeline::Iteration& one : t_.iterations) {
      end_ = std::max(end_, one.at + one.seconds);
    }
    plot_ = kTop + kRow * static_cast<double>(t_.uplinks.size()) + kGap;
  }

  std::string text() {
    const double height = plot_ + kPlot + 50;
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" "
        "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"#fff\"/>\n",
        kLeft + kWidth + 20, height);
    uplinks();
    iterations();
    marks();
    return out_ + "</svg>\n";
  }

 private:
  double x(double seconds) const { return kLeft + kWidth * seconds / end_; }

  void label(double at_x, double at_y, const std::string& text, const char* more) {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", at_x, at_y, more,
                        escaped(text));
  }

  void uplinks() {
    label(kLeft, kTop - 8, "Uplinks: the darker, the fuller (both directions' greater)", "");
    for (size_t u = 0; u < t_.uplinks.size(); ++u) {
      const double y = kTop + kRow * static_cast<double>(u);
      label(kLeft - 6, y + kRow - 4, t_.uplinks[u], "text-anchor=\"end\"");
      // Neighbours of one shade are one rectangle.
      double begin = 0, end = 0;
      int shade = 0;
      const auto draw = [&] {
        if (shade == 0) return;
        out_ += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
            "fill-opacity=\"{:.1f}\"/>\n",
            x(begin), y + 1, x(end) - x(begin), kRow - 2, shade / 10.0);
      };
      out_ += "<g fill=\"#08306b\">\n";
      for (const Timeline::Sample& sample : t_.samples) {
        const int here = static_cast<int>(std::lround(10 * std::clamp(sample.used[u], 0.0, 1.0)));
        if (here != shade) {
          draw();
          begin = sample.at;
          shade = here;
        }
        end = sample.until;
      }
      draw();
      out_ += "</g>\n";
    }
  }

  void iterations() {
    double most = 0.1;
    for (const Timeline::Iteration& one : t_.iterations) most = std::max(most, one.seconds);
    const double top = std::ceil(most);
    const auto y = [&](double seconds) { return plot_ + kPlot * (1 - seconds / top); };
    label(kLeft, plot_ - 8, "Seconds of an iteration", "");
    for (int tick = 0; tick <= static_cast<int>(top); ++tick) {
      out_ += fmt::format("<path d=\"M{0:.1f} {1:.1f}h{2:.1f}\" stroke=\"#ddd\"/>\n", kLeft,
                          y(tick), kWidth);
      label(kLeft - 6, y(tick) + 4, std::to_string(tick), "text-anchor=\"end\"");
    }
    for (size_t j = 0; j < t_.jobs.size(); ++j) {
      const char* colour = kColours[j % kColours.size()];
      for (const Timeline::Iteration& one : t_.iterations) {
        if (one.job != static_cast<int>(j)) continue;
        out_ +=
            fmt::format("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"{}\" stroke-width=\"2.5\"/>\n",
                        x(one.at), y(one.seconds), x(one.at + one.seconds), colour);
      }
      label(kLeft + 60.0 * static_cast<double>(j), plot_ + kPlot + 38, "job " + t_.jobs[j],
            fmt::format("fill=\"{}\" font-weight=\"bold\"", colour).c_str());
    }
    const int step = static_cast<int>(std::ceil(end_ / 100)) * 10;
    for (int at = 0; at <= static_cast<int>(end_); at += step) {
      label(x(at), plot_ + kPlot + 18, fmt::format("{} s", at), "text-anchor=\"middle\"");
    }
  }

  /// Their texts in two lines by turns, so that neighbours do not meet.
  void marks() {
    for (size_t m = 0; m < t_.marks.size(); ++m) {
      const double at = x(t_.marks[m].at);
      const double y = 14.0 + 13.0 * static_cast<double>(m % 3);
      out_ += fmt::format(
          "<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"#999\" stroke-dasharray=\"3 3\"/>\n", at,
          y + 2, plot_ + kPlot);
      const bool late = at > kLeft + kWidth - 120;
      label(late ? at - 3 : at + 3, y, t_.marks[m].text,
            late ? "fill=\"#444\" text-anchor=\"end\"" : "fill=\"#444\"");
    }
  }

  const Timeline& t_;
  double end_ = 1, plot_ = 0;
  std::string out_;
};

}  // namespace

std::string timeline_svg(const Timeline& timeline) { return Picture(timeline).text(); }

}  // namespace monkeytree
