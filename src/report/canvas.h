#pragma once

#include <string>
#include <string_view>

/// Writes SVG elements. Looks come from the classes of chart_style().
namespace monkeytree {

inline constexpr double kTextSize = 12;

enum class Anchor { kStart, kMiddle, kEnd };

/// The data of a path.
class Path {
 public:
  void move(double x, double y) { add('M', x, y); }
  void line(double x, double y) { add('L', x, y); }
  void close() { text_ += 'Z'; }
  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  void add(char command, double x, double y);
  std::string text_;
};

class Canvas {
 public:
  void line(double x1, double y1, double x2, double y2, std::string_view look);
  void rect(double x, double y, double width, double height, std::string_view look,
            std::string_view tip = {});
  void path(const Path& path, std::string_view look, std::string_view tip = {});
  /// `turn` in degrees, clockwise around (x, y).
  void text(double x, double y, std::string_view text, std::string_view look,
            Anchor anchor = Anchor::kStart, double turn = 0);
  /// One of kMarkers shapes; `tip` is shown where the pointer rests.
  void marker(int shape, double x, double y, std::string_view look, std::string_view tip = {});
  static constexpr int kMarkers = 7;

  std::string take() { return std::move(out_); }

 private:
  void element(std::string_view start, std::string_view tip);
  std::string out_;
};

}  // namespace monkeytree
