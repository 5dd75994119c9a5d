#include "report/canvas.h"

#include <fmt/format.h>

#include <initializer_list>
#include <utility>

#include "report/text.h"

namespace monkeytree {

void Path::add(char command, double x, double y) {
  text_ += command;
  text_ += coordinate(x);
  text_ += ' ';
  text_ += coordinate(y);
}

void Canvas::element(std::string_view start, std::string_view tip) {
  out_ += start;
  if (tip.empty()) {
    out_ += "/>\n";
    return;
  }
  const std::string_view name = start.substr(1, start.find(' ') - 1);
  out_ += fmt::format("><title>{}</title></{}>\n", escape(tip), name);
}

void Canvas::line(double x1, double y1, double x2, double y2, std::string_view look) {
  element(fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"{}\"", coordinate(x1),
                      coordinate(y1), coordinate(x2), coordinate(y2), look),
          {});
}

void Canvas::rect(double x, double y, double width, double height, std::string_view look,
                  std::string_view tip) {
  element(fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"{}\"",
                      coordinate(x), coordinate(y), coordinate(width), coordinate(height), look),
          tip);
}

void Canvas::path(const Path& path, std::string_view look, std::string_view tip) {
  if (path.empty()) return;
  element(fmt::format("<path d=\"{}\" class=\"{}\"", path.text(), look), tip);
}

void Canvas::text(double x, double y, std::string_view text, std::string_view look, Anchor anchor,
                  double turn) {
  if (text.empty()) return;
  out_ += fmt::format("<text x=\"{}\" y=\"{}\"", coordinate(x), coordinate(y));
  if (!look.empty()) out_ += fmt::format(" class=\"{}\"", look);
  if (anchor != Anchor::kStart) {
    out_ += fmt::format(" text-anchor=\"{}\"", anchor == Anchor::kEnd ? "end" : "middle");
  }
  if (turn != 0) {
    out_ += fmt::format(" transform=\"rotate({} {} {})\"", coordinate(turn), coordinate(x),
                        coordinate(y));
  }
  out_ += fmt::format(">{}</text>\n", escape(text));
}

void Canvas::marker(int shape, double x, double y, std::string_view look, std::string_view tip) {
  using Corners = std::initializer_list<std::pair<double, double>>;
  const auto polygon = [&](Corners corners) {
    Path path;
    for (const auto& [dx, dy] : corners) {
      path.empty() ? path.move(x + dx, y + dy) : path.line(x + dx, y + dy);
    }
    path.close();
    this->path(path, fmt::format("m {}", look), tip);
  };
  switch (shape % kMarkers) {
    case 1:
      return polygon({{-3.5, -3.5}, {3.5, -3.5}, {3.5, 3.5}, {-3.5, 3.5}});
    case 2:
      return polygon({{0, -4.6}, {4.4, 3.4}, {-4.4, 3.4}});
    case 3:
      return polygon({{0, -5}, {5, 0}, {0, 5}, {-5, 0}});
    case 4:
      return polygon({{-4.4, -3.4}, {4.4, -3.4}, {0, 4.6}});
    case 5:
      return polygon({{-1.5, -4.5},
                      {1.5, -4.5},
                      {1.5, -1.5},
                      {4.5, -1.5},
                      {4.5, 1.5},
                      {1.5, 1.5},
                      {1.5, 4.5},
                      {-1.5, 4.5},
                      {-1.5, 1.5},
                      {-4.5, 1.5},
                      {-4.5, -1.5},
                      {-1.5, -1.5}});
    default:
      break;
  }
  element(fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"{} {}\"", coordinate(x),
                      coordinate(y), shape % kMarkers == 0 ? "3.8" : "3.4",
                      shape % kMarkers == 0 ? "m" : "ring", look),
          tip);
}

}  // namespace monkeytree
