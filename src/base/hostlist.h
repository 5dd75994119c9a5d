#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace monkeytree {

/// Names that one bracket range may stand for; Slurm's own limit.
inline constexpr size_t kMaxHostsInRange = 65536;
/// Names, and bytes of names, that one list may stand for.
inline constexpr size_t kMaxHosts = size_t{1} << 20;
inline constexpr size_t kMaxHostBytes = size_t{64} << 20;

/// The names that a Slurm host list stands for, in Slurm's order, repeats kept.
///
/// Names are parted by commas or blanks, and empty ones are skipped. A name may hold bracket
/// groups, `r[1-2]n[01-03,7]`; nothing may follow the last group. A range counts up and takes the
/// width of its low end: `[09-11]` is 09 10 11, `[9-011]` is 9 10 11. Of several groups the last
/// counts fastest, then the first, then the second, as in Slurm.
///
/// Errors (kInvalidArgument, with the byte where it stands): a range that counts down, an empty
/// one, one that is no number, a bracket that is not closed or not opened, text after a group, a
/// number beyond 64 bits within brackets, more than kMaxHostsInRange names in a range or
/// kMaxHostBytes bytes in the list; kResourceExhausted for more than `limit` names. Stricter than
/// Slurm, which reads `n[1` as the name "n]", `n[1-]` as n1, `n[+1]` as n01 and `n[2-1]c[3]` as
/// nothing. O(length of text and result).
absl::StatusOr<std::vector<std::string>> expand_hostlist(std::string_view text,
                                                         size_t limit = kMaxHosts);

/// Slurm reads the number that ends a name into 64 bits, and takes all that are larger for
/// 18446744073709551615. True where that would befall `name`; expand_hostlist() keeps such names
/// as they are written.
bool number_exceeds_slurm(std::string_view name);

/// A short form for people: `n[1-3,07],x`. The names sorted by number, each once.
/// O(n log n).
std::string compress_hostlist(const std::vector<std::string>& names);

}  // namespace monkeytree
