#include "report/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <sstream>

#include "report/text.h"

namespace monkeytree {
namespace {

constexpr double kSwatch = 30;
constexpr double kRow = 20;
constexpr double kLineHeight = 15;

/// Where the colours come round again, the fills are others.
int fill_number(int style) { return (style + style / 8) % 4; }

void draw_swatch(Canvas& canvas, const LegendEntry& entry, double x, double y) {
  const std::string color = color_of(entry.style);
  const std::string line = line_look(entry.style, entry.strong);
  switch (entry.kind) {
    case LegendEntry::kLine:
      canvas.line(x, y, x + kSwatch - 4, y, line);
      canvas.marker(entry.style, x + kSwatch / 2 - 2, y, color);
      break;
    case LegendEntry::kStep:
      canvas.line(x, y, x + kSwatch - 4, y, line);
      break;
    case LegendEntry::kBar:
      draw_bar(canvas, x + 8, y - 6, 16, 12, entry.style, {});
      break;
    case LegendEntry::kBand:
      canvas.rect(x, y - 6, kSwatch - 4, 12, "band plainband");
      break;
    case LegendEntry::kErrorBar:
      draw_error_bar(canvas, x + 16, y - 6, y + 6, 4);
      break;
    case LegendEntry::kReference:
      canvas.line(x, y, x + kSwatch - 4, y, "ref");
      break;
  }
}

/// A label centred at x, but never beyond the picture's edges.
void draw_centred(Canvas& canvas, double x, double y, const std::string& text,
                  std::string_view look) {
  const double half = text_width(text, kTextSize) / 2;
  canvas.text(std::clamp(x, half + 1, std::max(half + 1, kChartWidth - half - 1)), y, text, look,
              Anchor::kMiddle);
}

std::vector<std::string> broken(const std::string& text, double width) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!lines.empty() && text_width(lines.back() + " " + word, kTextSize) <= width) {
      lines.back() += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

}  // namespace

int style_of(int style, size_t place) { return style >= 0 ? style : static_cast<int>(place); }
std::string color_of(int style) { return fmt::format("c{}", style % 8); }
std::string line_look(int style, bool strong) {
  if (strong) return fmt::format("l {} strong", color_of(style));
  return style % 5 == 0 ? fmt::format("l {}", color_of(style))
                        : fmt::format("l {} d{}", color_of(style), style % 5);
}
std::string fill_of(int style) { return fmt::format("f{}", fill_number(style)); }

double draw_legend(Canvas& canvas, const std::vector<LegendEntry>& entries) {
  double x = 0;
  double y = 0;
  for (const LegendEntry& entry : entries) {
    if (entry.name.empty()) continue;
    const std::string name = shorten(entry.name, kChartWidth / 2, kTextSize);
    const double width = kSwatch + 4 + text_width(name, kTextSize);
    if (y == 0 || x + width > kChartWidth) {
      x = 0;
      y += kRow;
    }
    draw_swatch(canvas, entry, x, y - 8);
    canvas.text(x + kSwatch + 2, y - 4, name, "");
    x += width + 14;
  }
  return y == 0 ? 0 : y + 6;
}

Plot draw_y_axis(Canvas& canvas, Scale& y_scale, double top, double height) {
  Plot plot;
  plot.left = std::ceil(y_scale.widest_label(kTextSize)) + 12;
  plot.right = kChartWidth - kRightMargin;
  plot.top = top + (y_scale.title().empty() ? 8 : 26);
  plot.bottom = plot.top + height;
  y_scale.place(plot.bottom, plot.top);
  if (!y_scale.title().empty()) canvas.text(0, top + 12, y_scale.title(), "axis");
  for (const Tick& tick : y_scale.ticks()) {
    const double y = y_scale.at(tick.value);
    canvas.line(plot.left, y, plot.right, y, "grid");
    canvas.text(plot.left - 8, y + 4, tick.label, "tick", Anchor::kEnd);
  }
  return plot;
}

double draw_x_axis(Canvas& canvas, const Scale& x_scale, const Plot& plot, bool grid) {
  canvas.line(plot.left, plot.bottom, plot.right, plot.bottom, "base");
  for (const Tick& tick : x_scale.ticks()) {
    const double x = x_scale.at(tick.value);
    if (grid) canvas.line(x, plot.top, x, plot.bottom, "grid");
    canvas.line(x, plot.bottom, x, plot.bottom + 5, "base");
    draw_centred(canvas, x, plot.bottom + 19, tick.label, "tick");
  }
  if (x_scale.title().empty()) return 26;
  draw_centred(canvas, (plot.left + plot.right) / 2, plot.bottom + 38, x_scale.title(), "axis");
  return 46;
}

Scale x_scale_within(const Plot& plot, const Axis& axis, Range data) {
  constexpr double kInset = 10;
  return fitting_scale(axis, data, plot.left + kInset, plot.right - kInset, Ends::kExact,
                       kTextSize);
}

double draw_names(Canvas& canvas, const std::vector<std::string>& names, const Plot& plot) {
  constexpr double kWidest = 170;  // pixels of a turned name
  constexpr double kTurn = -35;
  const double room =
      (plot.right - plot.left) / static_cast<double>(std::max<size_t>(1, names.size()));
  size_t lines = 1;
  double widest_line = 0;
  double widest = 0;
  for (const std::string& name : names) {
    const std::vector<std::string> parts = broken(name, room - 8);
    lines = std::max(lines, parts.size());
    for (const std::string& part : parts) {
      widest_line = std::max(widest_line, text_width(part, kTextSize));
    }
    widest = std::max(widest, text_width(shorten(name, kWidest, kTextSize), kTextSize));
  }
  const bool turned = widest_line > room - 4 || lines > 3;
  // Where names are closer than a line is high, only every so many of them.
  const size_t every = turned && room < kLineHeight
                           ? static_cast<size_t>(std::ceil(kLineHeight / std::max(room, 0.01)))
                           : 1;
  for (size_t i = 0; i < names.size(); i += every) {
    const double x = plot.left + room * (static_cast<double>(i) + 0.5);
    if (turned) {
      // A turned name must not begin left of the picture.
      const double fits =
          std::min(kWidest, std::max(30.0, x / std::cos(kTurn * std::numbers::pi / 180)));
      canvas.text(x + 4, plot.bottom + 15, shorten(names[i], fits, kTextSize), "tick", Anchor::kEnd,
                  kTurn);
      continue;
    }
    double y = plot.bottom + 19;
    for (const std::string& part : broken(names[i], room - 8)) {
      draw_centred(canvas, x, y, part, "tick");
      y += kLineHeight;
    }
  }
  if (turned) return 22 + widest * std::sin(-kTurn * std::numbers::pi / 180);
  return 12 + static_cast<double>(lines) * kLineHeight;
}

void draw_references(Canvas& canvas, const std::vector<Reference>& references, const Scale& y,
                     const Plot& plot) {
  for (const Reference& reference : references) {
    if (!y.has_place(reference.value)) continue;
    const double at = y.at(reference.value);
    canvas.line(plot.left, at, plot.right, at, "ref");
  }
}

void add_references(std::vector<LegendEntry>& legend, const std::vector<Reference>& references) {
  for (const Reference& reference : references) {
    legend.push_back({LegendEntry::kReference, reference.label});
  }
}

void draw_nothing(Canvas& canvas, const Plot& plot) {
  canvas.text((plot.left + plot.right) / 2, (plot.top + plot.bottom) / 2 + 4, "nothing to show",
              "axis", Anchor::kMiddle);
}

void draw_bar(Canvas& canvas, double x, double y, double width, double height, int style,
              std::string_view tip) {
  const std::string color = color_of(style);
  canvas.rect(x, y, width, height, fmt::format("bar {} {}", fill_of(style), color), tip);
  const std::string stripe = fmt::format("stripe {}", color);
  constexpr double kApart = 4;
  const bool across = fill_number(style) == 1;
  const bool along = fill_number(style) == 3;
  const int stripes = static_cast<int>(((across ? height : width) - 1) / kApart);
  for (int i = 1; i <= stripes && (across || along); ++i) {
    const double at = across ? y + height - i * kApart : x + i * kApart;
    across ? canvas.line(x, at, x + width, at, stripe) : canvas.line(at, y, at, y + height, stripe);
  }
}

void draw_error_bar(Canvas& canvas, double x, double low, double high, double foot) {
  Path path;
  path.move(x, low);
  path.line(x, high);
  path.move(x - foot, low);
  path.line(x + foot, low);
  path.move(x - foot, high);
  path.line(x + foot, high);
  canvas.path(path, "err");
}

std::string summary_text(std::string_view kind, size_t count, std::string_view noun) {
  return fmt::format("{}, {} {}.", kind, count, noun);
}

}  // namespace monkeytree
