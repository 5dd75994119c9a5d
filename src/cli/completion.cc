#include "cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <vector>

#include "cli/common.h"

namespace monkeytree {
namespace {

/// A command and the words that lead to it: {"import", "slurm"}; none for the program itself.
struct Command {
  std::vector<std::string> path;
  const CLI::App* app;
};

void collect(const CLI::App& app, const std::vector<std::string>& path,
             std::vector<Command>& commands) {
  commands.push_back({path, &app});
  for (const CLI::App* sub : app.get_subcommands({})) {
    std::vector<std::string> longer = path;
    longer.push_back(sub->get_name());
    collect(*sub, longer, commands);
  }
}

std::vector<Command> all_commands(const CLI::App& app) {
  std::vector<Command> commands;
  collect(app, {}, commands);
  return commands;
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  return names;
}

std::vector<const CLI::Option*> named_options(const CLI::App& app) {
  std::vector<const CLI::Option*> options;
  for (const CLI::Option* option : app.get_options()) {
    if (option->nonpositional()) options.push_back(option);
  }
  return options;
}

std::string long_name(const CLI::Option& option) { return "--" + option.get_lnames().front(); }

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

/// In single quotes of a shell.
std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c == '\n' ? ' ' : c;
    }
  }
  return out + "'";
}

/// Shell code that follows the words typed so far into `typed`, a command a word.
std::string follow_path(const std::vector<Command>& commands, std::string_view words) {
  std::vector<std::string> patterns;
  for (const Command& command : commands) {
    if (!command.path.empty())
      patterns.push_back(fmt::format("\" {}\"", fmt::join(command.path, " ")));
  }
  return fmt::format(
      "  local typed='' word\n"
      "  for word in {}; do\n"
      "    case \"$typed $word\" in\n"
      "      {}) typed=\"$typed $word\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$typed\" in\n",
      words, fmt::join(patterns, "|"));
}

std::string pattern_of(const Command& command) {
  return command.path.empty() ? "''" : fmt::format("' {}'", fmt::join(command.path, " "));
}

std::string bash_completion(const CLI::App& app) {
  const std::vector<Command> commands = all_commands(app);
  std::string out =
      "# bash completion of monkeytree: source <(monkeytree completion bash)\n"
      "_monkeytree() {\n"
      "  local cur=\"${COMP_WORDS[COMP_CWORD]}\" options='' commands=''\n";
  out += follow_path(commands, "\"${COMP_WORDS[@]:1:COMP_CWORD-1}\"");
  for (const Command& command : commands) {
    std::vector<std::string> options;
    for (const CLI::Option* option : named_options(*command.app)) {
      options.push_back(long_name(*option));
    }
    out += fmt::format("    {}) commands='{}' options='{}' ;;\n", pattern_of(command),
                       fmt::join(subcommand_names(*command.app), " "), fmt::join(options, " "));
  }
  return out +
         "  esac\n"
         "  if [[ $cur == -* ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
         "  else\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$commands\" -- \"$cur\")\n"
         "  fi\n"
         "}\n"
         "complete -o bashdefault -o default -F _monkeytree monkeytree\n";
}

/// One option as _arguments takes it: '--name[what it does]:value:_files'.
std::string zsh_option(const CLI::Option& option) {
  std::string description;
  for (char c : option.get_description()) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') description += '\\';
    description += c;
  }
  std::string text = fmt::format("{}[{}]", long_name(option), description);
  if (takes_value(option)) text += fmt::format(":{}:_files", option.get_type_name());
  return shell_quoted(text);
}

std::string zsh_completion(const CLI::App& app) {
  const std::vector<Command> commands = all_commands(app);
  std::string out =
      "#compdef monkeytree\n"
      "# zsh completion of monkeytree: monkeytree completion zsh > a folder of $fpath/_monkeytree\n"
      "_monkeytree() {\n";
  out += follow_path(commands, "${words[2,CURRENT-1]}");
  for (const Command& command : commands) {
    out += fmt::format("    {})\n", pattern_of(command));
    const std::vector<const CLI::App*> subs = command.app->get_subcommands({});
    if (!subs.empty()) {
      out += "      local -a subs=(\n";
      for (const CLI::App* sub : subs) {
        out += fmt::format("        {}\n",
                           shell_quoted(sub->get_name() + ":" + sub->get_description()));
      }
      out += "      )\n      _describe command subs\n";
    }
    out += "      _arguments";
    for (const CLI::Option* option : named_options(*command.app)) {
      out += fmt::format(" \\\n        {}", zsh_option(*option));
    }
    if (subs.empty()) out += " \\\n        '*:file:_files'";
    out += "\n      ;;\n";
  }
  return out + "  esac\n}\n_monkeytree \"$@\"\n";
}

std::string fish_completion(const CLI::App& app) {
  std::string out = "# fish completion of monkeytree: monkeytree completion fish | source\n";
  for (const Command& command : all_commands(app)) {
    std::string when = "__fish_use_subcommand";
    if (!command.path.empty()) {
      when = fmt::format("__fish_seen_subcommand_from {}", command.path.back());
    }
    for (const CLI::App* sub : command.app->get_subcommands({})) {
      out += fmt::format("complete -c monkeytree -f -n '{}' -a {} -d {}\n", when, sub->get_name(),
                         shell_quoted(sub->get_description()));
    }
    for (const CLI::Option* option : named_options(*command.app)) {
      out += fmt::format("complete -c monkeytree -n '{}' -l {}{} -d {}\n", when,
                         option->get_lnames().front(), takes_value(*option) ? " -r" : "",
                         shell_quoted(option->get_description()));
    }
  }
  return out;
}

/// Text as roff takes it: no line begins a request, no escape is meant.
std::string roff(const std::string& text) {
  std::string out;
  for (char c : text) {
    const bool starts_line = out.empty() || out.back() == '\n';
    if (starts_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string roff_command(const Command& command) {
  std::string out =
      fmt::format(".SS monkeytree {}\n{}\n", roff(fmt::format("{}", fmt::join(command.path, " "))),
                  roff(command.app->get_description()));
  for (const CLI::Option* option : command.app->get_options()) {
    if (option->nonpositional() && option->get_lnames().front() == "help") continue;
    const std::string name =
        option->nonpositional() ? option->get_name(false, true) : option->get_name(true, false);
    out += fmt::format(".TP\n.B {}", roff(name));
    if (takes_value(*option)) out += " " + roff(option->get_type_name());
    out += fmt::format("\n{}\n", roff(option->get_description()));
  }
  if (!command.app->get_footer().empty()) {
    out += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(command.app->get_footer()));
  }
  return out;
}

struct CompletionArguments {
  std::string shell;
};

}  // namespace

std::string man_page(const CLI::App& app) {
  std::string out =
      ".TH MONKEYTREE 1\n.SH NAME\nmonkeytree \\- near\\-minimal congestion for training clusters\n"
      ".SH SYNOPSIS\n.B monkeytree\nCOMMAND [OPTIONS]\n.SH DESCRIPTION\n";
  out += roff(app.get_description()) + "\n.PP\n.nf\n" + roff(app.get_footer()) + "\n.fi\n";
  out += ".SH COMMANDS\n";
  for (const Command& command : all_commands(app)) {
    if (!command.path.empty()) out += roff_command(command);
  }
  return out;
}

void add_completion(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<CompletionArguments>();
  CLI::App& completion =
      add_command(app, "completion", "completion of commands and options for a shell",
                  "Examples:\n"
                  "  source <(monkeytree completion bash)\n"
                  "  monkeytree completion fish | source");
  completion.add_option("SHELL", arguments->shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""))
      ->type_name("");
  completion.callback([&app, arguments, &exit_code] {
    const std::string text = arguments->shell == "bash"  ? bash_completion(app)
                             : arguments->shell == "zsh" ? zsh_completion(app)
                                                         : fish_completion(app);
    exit_code = print_result(text, kExitDone);
  });
  CLI::App& man = add_command(app, "man", "the manual page",
                              "Examples:\n"
                              "  monkeytree man | man -l -");
  man.callback([&app, &exit_code] { exit_code = print_result(man_page(app), kExitDone); });
}

}  // namespace monkeytree
