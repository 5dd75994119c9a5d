#include "study/slurm_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace monkeytree {

std::string shell_word(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_./=+-,:@").find(c) != std::string_view::npos;
  });
  if (plain) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string slurm_script(const SlurmArray& array) {
  std::string out = "#!/bin/bash\n";
  out += fmt::format("#SBATCH --job-name=monkeytree-{}\n", array.name);
  out += fmt::format("#SBATCH --array=0-{}\n", array.tasks - 1);
  out += "#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=1\n";
  for (const std::string& option : array.options) out += "#SBATCH " + option + "\n";
  out += "exec";
  for (const std::string& word : array.command) out += " " + shell_word(word);
  out += fmt::format(" --cell \"$SLURM_ARRAY_TASK_ID/{}\"\n", array.tasks);
  return out;
}

}  // namespace monkeytree
