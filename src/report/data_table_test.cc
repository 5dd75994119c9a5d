#include "report/data_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <sstream>

#include "report/text.h"
#include "report/well_formed.h"

namespace monkeytree {
namespace {

using testing::HasSubstr;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// RFC 4180 read back, as any program would.
std::vector<std::vector<std::string>> read_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows(1, {""});
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string& field = rows.back().back();
    if (quoted) {
      if (text[i] != '"') {
        field += text[i];
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        field += text[++i];
      } else {
        quoted = false;
      }
    } else if (text[i] == '"') {
      quoted = true;
    } else if (text[i] == ',') {
      rows.back().emplace_back();
    } else if (text[i] == '\n') {
      rows.push_back({""});
    } else {
      field += text[i];
    }
  }
  rows.pop_back();
  return rows;
}

DataTable systems() {
  DataTable table{.title = "Slowdown at load 1.0",
                  .columns = {{"system"}, {"average"}, {"p99"}, {"lost", "GPU-hours"}, {"note"}}};
  table.rows.push_back({"ecmp", DataCell(1.58, 2), DataCell(3.44, 2), 12340, "hash"});
  table.rows.push_back({"monkeytree", DataCell(1.0076, 2), DataCell(std::nan(""), 2), 160});
  return table;
}

TEST(TextTable, NumbersStandRightAndNamesLeft) {
  EXPECT_EQ(text_of(systems()),
            "Slowdown at load 1.0\n"
            "system      average   p99  lost (GPU-hours)  note\n"
            "──────────  ───────  ────  ────────────────  ────\n"
            "ecmp           1.58  3.44             12340  hash\n"
            "monkeytree     1.01     –               160\n");
}

TEST(TextTable, NamesAndHeadersAreBrokenAtBlanks) {
  DataTable table = systems();
  table.rows[0][4] = "a hash of the addresses";
  EXPECT_EQ(text_of(table, 49),
            "Slowdown at load 1.0\n"
            "system      average   p99         lost  note\n"
            "                           (GPU-hours)\n"
            "──────────  ───────  ────  ───────────  ─────────\n"
            "ecmp           1.58  3.44        12340  a hash of\n"
            "                                        the\n"
            "                                        addresses\n"
            "monkeytree     1.01     –          160\n");
}

TEST(TextTable, WhatDoesNotFitIsNamed) {
  DataTable table{.columns = {{"name"}}};
  for (int i = 1; i <= 12; ++i) table.columns.push_back({"column" + std::to_string(i)});
  table.columns[3].rank = 2;
  table.columns[5].rank = 1;
  table.rows.emplace_back(std::vector<DataCell>{"x"});
  for (int i = 1; i <= 12; ++i) table.rows[0].emplace_back(i);
  const std::string text = text_of(table);
  for (const std::string& line : lines_of(text)) EXPECT_LE(columns_of(line), 80u) << line;
  EXPECT_THAT(text, HasSubstr("Not shown for want of room: column3, column5, column11, column12"));
}

TEST(TextTable, NeverWiderThanAsked) {
  std::mt19937_64 random(3);
  const std::vector<std::string> words = {
      "a", "rack", "日本語", "averyveryverylongwordindeed", "é", "two words", "\x1b[31m"};
  for (int round = 0; round < 500; ++round) {
    DataTable table{.title = words[random() % words.size()]};
    const size_t columns = 1 + random() % 12;
    for (size_t c = 0; c < columns; ++c) {
      table.columns.push_back(
          {words[random() % words.size()], c % 3 == 0 ? "GB" : "", static_cast<int>(random() % 3)});
    }
    for (int r = 0; r < 4; ++r) {
      table.rows.emplace_back();
      for (size_t c = 0; c < random() % (columns + 1); ++c) {
        table.rows.back().push_back(c % 2 == 0 ? DataCell(words[random() % words.size()])
                                               : DataCell(static_cast<double>(random() % 9999), 2));
      }
    }
    const size_t width = 30 + random() % 60;
    for (const std::string& line : lines_of(text_of(table, width))) {
      EXPECT_LE(columns_of(line), width) << text_of(table, width);
      EXPECT_EQ(line.find('\x1b'), std::string::npos);
    }
  }
}

TEST(TextTable, EmptyOnes) {
  EXPECT_EQ(text_of({}), "");
  EXPECT_EQ(text_of({.columns = {{"a"}, {"b"}}}), "a  b\n─  ─\n");
}

TEST(Csv, HasEveryDigitAndTheUnit) {
  DataTable table{.columns = {{"name"}, {"time", "s"}, {"n"}}};
  table.rows.push_back({"a", DataCell(1.0 / 3, 1), int64_t{1} << 40});
  table.rows.push_back({"b", DataCell(std::nan(""), 1)});
  EXPECT_EQ(csv_of(table), "name,time_s,n\na,0.3333333333333333,1099511627776\nb,,\n");
}

TEST(Csv, ReadsBack) {
  std::mt19937_64 random(5);
  const std::string letters = "a,\"\n\r ;é'";
  for (int round = 0; round < 300; ++round) {
    DataTable table{.columns = {{"x"}, {"y"}}};
    std::vector<std::vector<std::string>> expected = {{"x", "y"}};
    for (int r = 0; r < 3; ++r) {
      std::vector<std::string> row(2);
      for (std::string& text : row) {
        for (size_t i = random() % 6; i > 0; --i) text += letters[random() % letters.size()];
      }
      table.rows.push_back({row[0], row[1]});
      expected.push_back(row);
    }
    EXPECT_EQ(read_csv(csv_of(table)), expected);
  }
}

TEST(HtmlTable, IsEscapedAndGrouped) {
  DataTable table = systems();
  table.rows[0][0] = "<ecmp>";
  const std::string html = html_of(table);
  EXPECT_EQ(xml_fault(html), "");
  EXPECT_THAT(html, HasSubstr("<td>&lt;ecmp&gt;</td><td class=\"number\">1.58</td>"));
  EXPECT_THAT(html, HasSubstr("12\u202f340"));
  EXPECT_THAT(html, HasSubstr("<caption>Slowdown at load 1.0</caption>"));
}

}  // namespace
}  // namespace monkeytree
