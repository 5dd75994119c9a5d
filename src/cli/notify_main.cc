#include <csignal>
#include <exception>

#include "cli/notify_fast.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return monkeytree::notify_fast(argc, argv, 1);
  } catch (const std::exception&) {
    return 0;  // whatever it is, it must not fail a job
  }
}
