#pragma once

/// What `monkeytree notify` and the program monkeytree-notify do. Apart and small: a scheduler's
/// prolog waits for it, and most of its time would be the loading of libraries that it never needs.
namespace monkeytree {

/// True where the program is called as `notify`, and neither asked for help nor told to wait.
bool is_notify(int argc, char** argv);

/// Tells the controller that something has happened, within 20 ms, and never fails: a prolog must
/// neither wait nor break because of us. `arguments` begin at `first`; bad ones are remarked on on
/// standard error and passed over. By HTTPS the program `monkeytree` beside this one tells it, in
/// the background. Returns 0.
int notify_fast(int argc, char** argv, int first);

}  // namespace monkeytree
