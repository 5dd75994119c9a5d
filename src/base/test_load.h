#pragma once

#include <algorithm>

/// For tests over many drawn instances.
namespace monkeytree {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

/// How many of them to try: under a sanitizer, where each costs some ten times as much, a fifth. It
/// looks for harm to memory; that all answers are right is shown without it.
template <class Number>
constexpr Number instances(Number all) {
  return kSanitized ? std::max(Number{1}, all / 5) : all;
}

}  // namespace monkeytree
