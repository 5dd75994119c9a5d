#include "cli/help.h"

#include <sstream>

#include "cli/common.h"

namespace monkeytree {
namespace {

constexpr size_t kNameColumns = 26;

}  // namespace

HelpFormatter::HelpFormatter() { column_width(kNameColumns); }

std::string HelpFormatter::wrap(const std::string& text) const {
  std::istringstream words(text);
  std::string out;
  size_t used = 0;
  for (std::string word; words >> word;) {
    if (used > 0 && used + 1 + word.size() > kColumns - kNameColumns) {
      out += "\n";
      used = 0;
    } else if (used > 0) {
      out += " ";
      ++used;
    }
    out += word;
    used += word.size();
  }
  return out;
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  return wrap(option->get_description());
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  std::ostringstream out;
  CLI::detail::format_help(out, command->get_display_name(true), wrap(command->get_description()),
                           kNameColumns);
  return out.str();
}

}  // namespace monkeytree
