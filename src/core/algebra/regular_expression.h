// Regular expressions as automata.
#pragma once
#include <string_view>

#include "algebra/automaton.h"

namespace dp {

/// The minimal automaton of an expression over single characters, which matches whole words:
///   ab  a|b  (a)  a*  a+  a?  a{3}  a{2,5}  a{2,}  [abc]  [a-z]  [^ab]  .  ()  \* for a literal *
/// The alphabet is the characters named, sorted, and those of `alphabet` if that names more: `.` and
/// [^...] mean any of it. Characters are UTF-8 code points; spaces outside of brackets are not counted
/// unless escaped. Throws InputError that names the position.
Automaton parse_regular_expression(std::string_view text, std::string_view alphabet = {});

}  // namespace dp
