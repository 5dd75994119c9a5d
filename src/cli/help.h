#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace monkeytree {

/// Help pages within 80 columns: descriptions are wrapped beside the names they describe.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* command) const override;

 private:
  std::string wrap(const std::string& text) const;
};

}  // namespace monkeytree
