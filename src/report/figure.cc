#include "report/figure.h"

#include <fmt/format.h>

#include <cmath>

#include "report/text.h"

namespace monkeytree {
namespace {

// Every colour has a contrast of at least 4.5 to the page, in both schemes. On paper the light one.
constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--page:#ffffff;--card:#f6f7f9;--ink:#1b1f24;--soft:#57606a;--line:#d5dae0;
--warn:#b42318;--warnback:#fdecea;--accent:#1f5fbf;
--k0:#1f5fbf;--k1:#b54708;--k2:#15753a;--k3:#8a35bd;--k4:#c0215e;--k5:#0b6e84;--k6:#7a5a00;--k7:#4d5a68;
--h0:#f2f6fc;--h1:#dbe8f8;--h2:#bcd5f1;--h3:#95bce7;--h4:#6a9fdb;--h5:#437fc8;--h6:#2a62ac;--h7:#1b4888;--h8:#113162;
--hl:#12263f;--hd:#ffffff}
@media screen and (prefers-color-scheme:dark){:root{--page:#14171b;--card:#1d2127;--ink:#e6e9ed;--soft:#a3adb8;--line:#39414b;
--warn:#ff9b8f;--warnback:#42201d;--accent:#8ab8ff;
--k0:#7fb2ff;--k1:#f7a35c;--k2:#63cf8c;--k3:#cda2f7;--k4:#f78db3;--k5:#52c7de;--k6:#d9b650;--k7:#aebac7;
--h0:#1b2430;--h1:#1c3049;--h2:#1e3f66;--h3:#225185;--h4:#2d67a6;--h5:#4a86c8;--h6:#75a8e0;--h7:#a6c8ef;--h8:#d9e8fb;
--hl:#e6eef8;--hd:#0d1b2e}}
svg.chart text{font:12px system-ui,"Segoe UI","Helvetica Neue","DejaVu Sans",sans-serif;fill:var(--ink);font-variant-numeric:tabular-nums}
svg.chart .tick,svg.chart .axis{fill:var(--soft)}
svg.chart .axis{font-weight:600}
svg.chart .head{font-size:16px;font-weight:600}
svg.chart .value{font-size:11px}
svg.chart .grid{stroke:var(--line);stroke-width:1}
svg.chart .base{stroke:var(--soft);stroke-width:1}
svg.chart .l{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}
svg.chart .strong{stroke-width:3.4}
svg.chart .m{fill:currentColor;stroke:var(--page);stroke-width:1}
svg.chart .ring{fill:var(--page);stroke:currentColor;stroke-width:2}
svg.chart .band{fill:currentColor;fill-opacity:.18;stroke:none}
svg.chart .plainband{color:var(--soft);fill-opacity:.25}
svg.chart .bar{stroke:currentColor;stroke-width:1}
svg.chart .f0{fill:currentColor}
svg.chart .f1,svg.chart .f3{fill:var(--page)}
svg.chart .f2{fill:currentColor;fill-opacity:.35}
svg.chart .stripe{stroke:currentColor;stroke-width:1.6}
svg.chart .err{fill:none;stroke:var(--ink);stroke-width:1.3}
svg.chart .ref{stroke:var(--warn);stroke-width:1.4;stroke-dasharray:6 4}
svg.chart .warn{fill:var(--warn);font-weight:700}
svg.chart .whisker{stroke:var(--k0);stroke-width:1.6}
svg.chart .box{fill:var(--h3);stroke:var(--k0);stroke-width:1}
svg.chart .median{stroke:var(--ink);stroke-width:2.4}
svg.chart .heat{stroke:var(--page);stroke-width:1.5}
svg.chart .none{fill:var(--card)}
svg.chart .slot{fill:currentColor}
svg.chart .calm{color:var(--line)}
svg.chart .letter{font-size:11px;font-weight:700;fill:var(--page)}
svg.chart .small{font-size:10px}
svg.chart .tiny{font-size:8.5px}
svg.chart .calmletter{font-weight:400;fill:var(--soft)}
svg.chart .free{fill:none;stroke:var(--line);stroke-width:1}
svg.chart .cross{fill:none;stroke:var(--soft);stroke-width:1.2}
svg.chart .overrack{fill:var(--warnback)}
svg.chart .c0{color:var(--k0)}svg.chart .c1{color:var(--k1)}svg.chart .c2{color:var(--k2)}svg.chart .c3{color:var(--k3)}
svg.chart .c4{color:var(--k4)}svg.chart .c5{color:var(--k5)}svg.chart .c6{color:var(--k6)}svg.chart .c7{color:var(--k7)}
svg.chart .d1{stroke-dasharray:8 4}svg.chart .d2{stroke-dasharray:2 3}svg.chart .d3{stroke-dasharray:10 3 2 3}svg.chart .d4{stroke-dasharray:16 4}
svg.chart .h0{fill:var(--h0)}svg.chart .h1{fill:var(--h1)}svg.chart .h2{fill:var(--h2)}svg.chart .h3{fill:var(--h3)}svg.chart .h4{fill:var(--h4)}
svg.chart .h5{fill:var(--h5)}svg.chart .h6{fill:var(--h6)}svg.chart .h7{fill:var(--h7)}svg.chart .h8{fill:var(--h8)}
svg.chart .th0,svg.chart .th1,svg.chart .th2,svg.chart .th3,svg.chart .th4{fill:var(--hl)}
svg.chart .th5,svg.chart .th6,svg.chart .th7,svg.chart .th8{fill:var(--hd)}
svg.chart .tnone{fill:var(--soft)}
)";

std::string description(const Figure& figure) {
  if (figure.caption.empty()) return figure.summary;
  return figure.summary.empty() ? figure.caption : figure.summary + " " + figure.caption;
}

}  // namespace

std::string_view chart_style() { return kStyle; }

std::string svg_of(const Figure& figure, std::string_view id) {
  return fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{}-title "
      "{}-desc\">\n"
      "<title id=\"{}-title\">{}</title>\n<desc id=\"{}-desc\">{}</desc>\n{}</svg>\n",
      coordinate(figure.width), coordinate(std::ceil(figure.height)), id, id, id,
      escape(figure.title), id, escape(description(figure)), figure.body);
}

std::string svg_file_of(const Figure& figure) {
  constexpr double kMargin = 16;
  const double head = figure.title.empty() ? 0 : 30;
  const double width = figure.width + 2 * kMargin;
  const double height = std::ceil(figure.height) + 2 * kMargin + head;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" role=\"img\">\n<title>{2}</title>\n<desc>{3}</desc>\n"
      "<style>{4}</style>\n<rect width=\"{0}\" height=\"{1}\" style=\"fill:var(--page)\"/>\n"
      "<text x=\"{5}\" y=\"{6}\" class=\"head\">{2}</text>\n"
      "<g transform=\"translate({5} {7})\">\n{8}</g>\n</svg>\n",
      coordinate(width), coordinate(height), escape(figure.title), escape(description(figure)),
      kStyle, coordinate(kMargin), coordinate(kMargin + 14), coordinate(kMargin + head),
      figure.body);
}

}  // namespace monkeytree
