#include "worker_log.h"

#include <fstream>
#include <sstream>

namespace monkeytree {

std::vector<WorkerLogLine> read_worker_log(const std::string& file) {
  std::vector<WorkerLogLine> lines;
  std::ifstream in(file);
  for (std::string text; std::getline(in, text);) {
    if (in.eof()) break;  // the last line is being written
    std::istringstream words(text);
    WorkerLogLine line;
    words >> line.iteration >> line.process >> line.node >> line.sum;
    lines.push_back(line);
  }
  return lines;
}

}  // namespace monkeytree
