#include "report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>

#include "report/sample_charts.h"
#include "report/well_formed.h"

namespace monkeytree {
namespace {

using testing::HasSubstr;
using testing::Not;

// MONKEYTREE_SAMPLE_PAGE=FILE writes the page there, for looking at it.
TEST(Page, WithAllChartsIsWellFormed) {
  const std::string html = sample_page().html();
  EXPECT_EQ(xml_fault(html), "");
  if (const char* file = std::getenv("MONKEYTREE_SAMPLE_PAGE")) std::ofstream(file) << html;
}

TEST(Page, LoadsNothingAndRunsNothing) {
  const std::string html = sample_page().html();
  for (const char* word : {"http:", "https:", "src=", "url(", "@import", "<script", "<link", "<img",
                           "<iframe", "<object", "onload"}) {
    EXPECT_THAT(html, Not(HasSubstr(word)));
  }
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
}

TEST(Page, IdsAreUniqueAndLinksLead) {
  const std::string html = sample_page().html();
  std::set<std::string> ids;
  const std::regex id("[ ]id=\"([^\"]*)\"");
  for (std::sregex_iterator it(html.begin(), html.end(), id), end; it != end; ++it) {
    EXPECT_TRUE(ids.insert((*it)[1]).second) << (*it)[1];
  }
  const std::regex use("(?:href=\"#|aria-labelledby=\")([^\" ]*)");
  size_t uses = 0;
  for (std::sregex_iterator it(html.begin(), html.end(), use), end; it != end; ++it, ++uses) {
    EXPECT_TRUE(ids.count((*it)[1])) << (*it)[1];
  }
  EXPECT_EQ(uses, 4u + 8u);
}

TEST(Page, EscapesWhatItIsGiven) {
  const std::string evil = "<b>\"&'\x01\xff";
  Page page(evil, evil);
  page.heading(evil);
  page.paragraph(evil + " `" + evil + "` one ` alone");
  page.notice(evil);
  page.list({evil});
  page.code(evil);
  page.key_figures({{evil, evil, evil}});
  page.add(DataTable{.title = evil, .columns = {{evil, evil}}, .rows = {{evil}}});
  LineChart chart{.title = evil, .caption = evil, .x = {evil, evil}, .y = {evil, evil}};
  chart.series.push_back({.name = evil, .points = {{1, 2, 1, 3}, {2, 3}}});
  chart.references.push_back({2, evil});
  page.add(draw(chart));
  page.footer(evil);
  const std::string html = page.html();
  EXPECT_EQ(xml_fault(html), "");
  EXPECT_THAT(html, Not(HasSubstr("<b>\"")));
  EXPECT_THAT(html, HasSubstr("&lt;b&gt;&quot;&amp;&#39;\xEF\xBF\xBD\xEF\xBF\xBD"));
  EXPECT_THAT(html, HasSubstr("one ` alone"));
}

TEST(Page, EmptyOneStands) {
  const std::string html = Page("Nothing").html();
  EXPECT_EQ(xml_fault(html), "");
  EXPECT_THAT(html, HasSubstr("<h1>Nothing</h1>"));
  EXPECT_THAT(html, Not(HasSubstr("<nav")));
}

TEST(Page, SameBytesTwice) { EXPECT_EQ(sample_page().html(), sample_page().html()); }

// Every class that a picture uses has a rule, apart from those that only name colours of text.
TEST(Page, EveryLookIsStyled) {
  const std::string html = sample_page().html();
  const std::string style(chart_style());
  const std::regex use("class=\"([^\"]*)\"");
  const size_t begin = html.find("<svg");
  std::set<std::string> missing;
  for (std::sregex_iterator it(html.begin() + static_cast<std::ptrdiff_t>(begin), html.end(), use),
       end;
       it != end; ++it) {
    const std::string looks = (*it)[1];
    const std::regex word("[^ ]+");
    for (std::sregex_iterator look(looks.begin(), looks.end(), word); look != end; ++look) {
      if (html.find("." + look->str()) == std::string::npos) missing.insert(look->str());
    }
  }
  EXPECT_THAT(missing, testing::IsSubsetOf({"d0", "scroll"}));
}

}  // namespace
}  // namespace monkeytree
