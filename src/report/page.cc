#include "report/page.h"

#include <fmt/format.h>

#include "report/text.h"

namespace monkeytree {
namespace {

constexpr std::string_view kPageStyle = R"(
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,"Segoe UI","Helvetica Neue","DejaVu Sans",sans-serif}
main{max-width:820px;margin:0 auto;padding:40px 24px 56px}
h1{font-size:30px;line-height:1.2;margin:0 0 6px;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:21px;line-height:1.3;margin:44px 0 10px;padding-top:14px;border-top:1px solid var(--line);overflow-wrap:anywhere}
p,ul{margin:0 0 14px;overflow-wrap:anywhere}
ul{padding-left:22px}
.subtitle{color:var(--soft);font-size:17px;margin-bottom:26px}
nav{margin:0 0 8px;font-size:15px}
nav ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:4px 18px}
a{color:var(--accent)}
.notice{background:var(--card);border-left:4px solid var(--accent);padding:10px 14px;border-radius:0 6px 6px 0}
.keys{display:grid;grid-template-columns:repeat(auto-fit,minmax(165px,1fr));gap:12px;margin:0 0 24px;padding:0}
.key{display:flex;flex-direction:column;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px 16px;margin:0}
.key dd{margin:0}
.key .value{order:-1;font-size:27px;font-weight:650;line-height:1.2;font-variant-numeric:tabular-nums}
.key dt{font-size:14px}
.key .note{color:var(--soft);font-size:13px}
figure{margin:26px 0 30px}
figcaption{margin-bottom:10px}
figcaption b{display:block}
figcaption span{color:var(--soft);font-size:15px}
.scroll{overflow-x:auto}
svg.chart{display:block;width:100%;min-width:560px;height:auto;overflow:visible}
details{margin-top:8px;font-size:14px}
summary{cursor:pointer;color:var(--soft)}
table{border-collapse:collapse;font-size:14px;line-height:1.4;margin:10px 0 18px;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;font-size:16px;padding-bottom:6px}
th,td{padding:5px 16px 5px 0;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600;vertical-align:bottom}
.number{text-align:right;white-space:nowrap}
th.number{white-space:normal}
code,pre{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:.88em}
code{background:var(--card);border-radius:4px;padding:1px 5px;overflow-wrap:anywhere}
pre{background:var(--card);border-radius:6px;padding:12px 14px;overflow-x:auto}
footer{margin-top:48px;padding-top:12px;border-top:1px solid var(--line);color:var(--soft);font-size:14px}
@media print{@page{margin:16mm}body{font-size:11pt}main{max-width:none;padding:0}nav{display:none}
h2{break-after:avoid}figure,tr,.keys{break-inside:avoid}.scroll{overflow:visible}svg.chart{min-width:0}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
)";

/// Escaped, with `code` set apart. A backtick without a partner stands as it is.
std::string prose(std::string_view text) {
  std::string out;
  while (true) {
    const size_t open = text.find('`');
    const size_t close = open == std::string_view::npos ? open : text.find('`', open + 1);
    if (close == std::string_view::npos) return out + escape(text);
    out += escape(text.substr(0, open));
    out += "<code>" + escape(text.substr(open + 1, close - open - 1)) + "</code>";
    text.remove_prefix(close + 1);
  }
}

}  // namespace

void Page::key_figures(const std::vector<KeyFigure>& figures) {
  if (figures.empty()) return;
  body_ += "<div class=\"keys\">\n";
  for (const KeyFigure& figure : figures) {
    body_ += fmt::format("<dl class=\"key\"><dt>{}</dt><dd class=\"value\">{}</dd>",
                         escape(figure.label), escape(figure.value));
    if (!figure.note.empty())
      body_ += fmt::format("<dd class=\"note\">{}</dd>", escape(figure.note));
    body_ += "</dl>\n";
  }
  body_ += "</div>\n";
}

void Page::heading(std::string_view text) {
  headings_.emplace_back(text);
  body_ += fmt::format("<h2 id=\"section{}\">{}</h2>\n", headings_.size(), escape(text));
}

void Page::paragraph(std::string_view text) { body_ += fmt::format("<p>{}</p>\n", prose(text)); }

void Page::notice(std::string_view text) {
  body_ += fmt::format("<p class=\"notice\" role=\"note\">{}</p>\n", prose(text));
}

void Page::list(const std::vector<std::string>& items) {
  if (items.empty()) return;
  body_ += "<ul>\n";
  for (const std::string& item : items) body_ += fmt::format("<li>{}</li>\n", prose(item));
  body_ += "</ul>\n";
}

void Page::code(std::string_view text) { body_ += fmt::format("<pre>{}</pre>\n", escape(text)); }

void Page::add(const DataTable& table) {
  body_ += "<div class=\"scroll\">\n" + html_of(table) + "</div>\n";
}

void Page::add(const Figure& figure) {
  ++figures_;
  const std::string id = fmt::format("figure{}", figures_);
  body_ += fmt::format("<figure id=\"{}\">\n<figcaption><b>Figure {}{}{}</b>", id, figures_,
                       figure.title.empty() ? "" : ". ", escape(figure.title));
  if (!figure.caption.empty()) body_ += fmt::format(" <span>{}</span>", prose(figure.caption));
  body_ += fmt::format("</figcaption>\n<div class=\"scroll\">\n{}</div>\n", svg_of(figure, id));
  if (!figure.numbers.rows.empty()) {
    body_ += fmt::format(
        "<details><summary>The numbers</summary>\n<div class=\"scroll\">\n{}</div>\n</details>\n",
        html_of(figure.numbers));
  }
  body_ += "</figure>\n";
}

std::string Page::html() const {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\"/>\n<title>{0}</title>\n<style>{1}{2}</style>\n</head>\n<body>\n<main>\n"
      "<h1>{0}</h1>\n",
      escape(title_), chart_style(), kPageStyle);
  if (!subtitle_.empty()) out += fmt::format("<p class=\"subtitle\">{}</p>\n", prose(subtitle_));
  if (headings_.size() > 2) {
    out += "<nav aria-label=\"Contents\"><ul>\n";
    for (size_t i = 0; i < headings_.size(); ++i) {
      out += fmt::format("<li><a href=\"#section{}\">{}</a></li>\n", i + 1, escape(headings_[i]));
    }
    out += "</ul></nav>\n";
  }
  out += body_;
  if (!footer_.empty()) out += fmt::format("<footer>{}</footer>\n", prose(footer_));
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace monkeytree
