#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/chart.h"
#include "report/frame.h"
#include "report/text.h"

namespace monkeytree {
namespace {

/// The first character of a name.
std::string first_letter(const std::string& name) {
  size_t bytes = name.empty() ? 0 : 1;
  while (bytes < name.size() && (static_cast<unsigned char>(name[bytes]) & 0xC0) == 0x80) ++bytes;
  return name.substr(0, bytes);
}

std::string letter_of(const PictureSlot& slot) {
  switch (slot.state) {
    case PictureSlot::kFree:
      return "·";
    case PictureSlot::kClosed:
      return "×";
    case PictureSlot::kHeld:
      break;
  }
  return slot.letter.empty() ? first_letter(slot.job) : slot.letter;
}

class RackDrawing {
 public:
  explicit RackDrawing(const RackPicture& picture) : picture_(picture) {
    for (const PictureRack& rack : picture.racks) {
      most_slots_ = std::max(most_slots_, rack.slots.size());
      name_width_ = std::max(
          name_width_, text_width(shorten(rack.name, kWidestName, kTextSize), kTextSize) + 10);
      degree_width_ = std::max(degree_width_, text_width(degree_text(rack), kTextSize) + 10);
      for (const PictureSlot& slot : rack.slots) {
        if (slot.state == PictureSlot::kHeld && slot.crosses) {
          colors_.emplace(slot.job, style_of(slot.style, colors_.size()));
        }
      }
    }
    lay_out();
  }

  Figure draw() {
    Figure figure{.title = picture_.title,
                  .caption = picture_.caption,
                  .summary = summary(),
                  .width = kChartWidth};
    const double top = draw_key();
    if (picture_.racks.empty()) {
      draw_nothing(canvas_, {0, top, kChartWidth, top + 40});
      figure.height = top + 50;
    } else {
      figure.height = draw_racks(top) + 6;
    }
    figure.body = canvas_.take();
    figure.numbers = numbers();
    return figure;
  }

 private:
  static constexpr double kWidestName = 120;
  static constexpr double kBetween = 36;  ///< columns of racks
  static constexpr double kEdge = 4;      ///< of the mark behind a rack

  static bool over(const PictureRack& rack) { return rack.degree > rack.bound; }

  static std::string degree_text(const PictureRack& rack) {
    return fmt::format("{}{} / {}", over(rack) ? "▲ " : "", rack.degree, rack.bound);
  }

  /// Lines for the slots of the widest rack, then the largest cells with which the racks stand in
  /// columns of at most kTallest.
  void lay_out() {
    constexpr size_t kTallest = 24;
    constexpr double kLeast = 9;
    const double room = kChartWidth - name_width_ - degree_width_ - 10;
    const size_t slots = std::max<size_t>(1, most_slots_);
    const auto most_in_line = static_cast<size_t>(room / kLeast);
    const size_t lines = (slots + most_in_line - 1) / most_in_line;
    per_line_ = (slots + lines - 1) / lines;
    const double widest = std::floor(room / static_cast<double>(per_line_));
    columns_ = 0;
    for (const double wanted : {22.0, 18.0, 15.0, 12.0}) {
      const double cell = std::min(wanted, widest);
      const double block = name_width_ + static_cast<double>(per_line_) * cell + 8 + degree_width_;
      const auto fit =
          static_cast<size_t>((kChartWidth - 2 * kEdge + kBetween) / (block + kBetween));
      const size_t useful = (picture_.racks.size() + 7) / 8;
      const size_t columns = std::clamp<size_t>(std::min(fit, useful), 1, 4);
      if (columns <= columns_) continue;  // smaller for nothing
      columns_ = columns;
      cell_ = cell;
      block_ = block;
      if (picture_.racks.size() <= columns_ * kTallest) return;
    }
  }

  std::string summary() const {
    const auto above = std::count_if(picture_.racks.begin(), picture_.racks.end(), over);
    return fmt::format("Picture of {}, {} above the bound.",
                       count_text(picture_.racks.size(), "rack"), above);
  }

  double draw_key() {
    double x = 0;
    double y = 4;
    const auto entry = [&](const PictureSlot& slot, std::string_view text) {
      const double width = 26 + text_width(text, kTextSize) + 18;
      if (x + width > kChartWidth) {
        x = 0;
        y += 22;
      }
      draw_slot(slot, x, y, 16, 0);
      canvas_.text(x + 22, y + 12, text, "");
      x += width;
    };
    entry({PictureSlot::kHeld, "A", "A", true}, "group in several racks");
    entry({PictureSlot::kHeld, "a", "a", false}, "within its rack");
    entry({}, "free");
    entry({PictureSlot::kClosed}, "takes nothing");
    const std::string_view text = "degree / bound, ▲ above the bound";
    if (x + text_width(text, kTextSize) > kChartWidth) {
      x = 0;
      y += 22;
    }
    canvas_.text(x, y + 12, text, "");
    return y + 30;
  }

  void draw_slot(const PictureSlot& slot, double x, double y, double size, int color) {
    const std::string tip = slot.job.size() > 1 ? slot.job : std::string();
    const double inner = size - 2;
    const bool roomy = size >= 12;
    switch (slot.state) {
      case PictureSlot::kHeld: {
        const std::string look =
            slot.crosses ? fmt::format("slot {}", color_of(color)) : "slot calm";
        canvas_.rect(x + 1, y + 1, inner, inner, look, tip);
        if (roomy) {
          canvas_.text(x + size / 2, y + size / 2 + (size < 15 ? 3 : 4), letter_of(slot),
                       fmt::format("letter{}{}", slot.crosses ? "" : " calmletter",
                                   size < 15 ? " tiny" : ""),
                       Anchor::kMiddle);
        }
        return;
      }
      case PictureSlot::kFree:
        canvas_.rect(x + 1.5, y + 1.5, inner - 1, inner - 1, "free");
        return;
      case PictureSlot::kClosed: {
        canvas_.rect(x + 1.5, y + 1.5, inner - 1, inner - 1, "free");
        Path cross;
        cross.move(x + 4, y + 4);
        cross.line(x + size - 4, y + size - 4);
        cross.move(x + size - 4, y + 4);
        cross.line(x + 4, y + size - 4);
        canvas_.path(cross, "cross");
        return;
      }
    }
  }

  double draw_racks(double top) {
    const size_t each = (picture_.racks.size() + columns_ - 1) / columns_;
    double lowest = top;
    for (size_t column = 0; column < columns_; ++column) {
      const double x = kEdge + static_cast<double>(column) * (block_ + kBetween);
      double y = top;
      for (size_t i = column * each; i < std::min(picture_.racks.size(), (column + 1) * each);
           ++i) {
        y += draw_rack(picture_.racks[i], x, y);
      }
      lowest = std::max(lowest, y);
    }
    return lowest;
  }

  double draw_rack(const PictureRack& rack, double x, double y) {
    const size_t lines = std::max<size_t>(1, (rack.slots.size() + per_line_ - 1) / per_line_);
    const double height = std::max(16.0, static_cast<double>(lines) * cell_);
    if (over(rack)) canvas_.rect(x - kEdge, y - 1, block_ + 2 * kEdge, height + 2, "overrack");
    const double middle = y + std::min(height, cell_ + 2) / 2 + 3;
    canvas_.text(x + name_width_ - 10, middle, shorten(rack.name, kWidestName, kTextSize), "tick",
                 Anchor::kEnd);
    for (size_t i = 0; i < rack.slots.size(); ++i) {
      const size_t line = i / per_line_;
      const auto found = colors_.find(rack.slots[i].job);
      draw_slot(rack.slots[i], x + name_width_ + static_cast<double>(i % per_line_) * cell_,
                y + static_cast<double>(line) * cell_, cell_,
                found == colors_.end() ? 0 : found->second);
    }
    canvas_.text(x + block_, middle, degree_text(rack), over(rack) ? "warn" : "tick", Anchor::kEnd);
    return height + 4;
  }

  DataTable numbers() const {
    DataTable table{
        .columns = {
            {"rack"}, {"degree"}, {"bound"}, {"excess"}, {"slots"}, {"jobs in several racks"}}};
    for (const PictureRack& rack : picture_.racks) {
      std::string slots;
      std::map<std::string, std::string> jobs;
      for (const PictureSlot& slot : rack.slots) {
        slots += letter_of(slot);
        if (slot.state == PictureSlot::kHeld && slot.crosses)
          jobs.emplace(slot.job, letter_of(slot));
      }
      std::string names;
      for (const auto& [job, letter] : jobs) {
        if (!names.empty()) names += ", ";
        names += job == letter ? job : fmt::format("{} {}", letter, job);
      }
      table.rows.push_back({rack.name, rack.degree, rack.bound,
                            std::max(0, rack.degree - rack.bound), slots, names});
    }
    return table;
  }

  const RackPicture& picture_;
  std::map<std::string, int> colors_;  ///< of jobs that cross racks, by first appearance
  size_t most_slots_ = 0;
  double name_width_ = 20;
  double degree_width_ = 40;
  double cell_ = 18;
  size_t per_line_ = 1;
  double block_ = 0;
  size_t columns_ = 1;
  Canvas canvas_;
};

}  // namespace

Figure draw(const RackPicture& picture) { return RackDrawing(picture).draw(); }

}  // namespace monkeytree
