#include "text/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>

#include "base/error.h"
#include "base/quote.h"

namespace dp {
namespace {

constexpr size_t kLongestExpression = 20'000;
constexpr uint32_t kMostSteps = 20'000'000;  // a tenth of a second or two
constexpr uint32_t kMostHeap = 64 << 10;     // KiB, of matching without JIT
constexpr size_t kLeastStack = 32 << 10, kMostStack = 1 << 20;

// What a match needs besides the expression. One per thread: making it costs more than matching a word.
struct MatchScratch {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(kLeastStack, kMostStack, nullptr);

  MatchScratch() {
    if (!data || !context) throw std::bad_alloc();
    pcre2_set_match_limit(context, kMostSteps);
    pcre2_set_heap_limit(context, kMostHeap);
    if (stack) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~MatchScratch() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;
};

std::string pcre2_message(int error) {
  std::array<PCRE2_UCHAR, 200> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct SplitPattern::Compiled {
  pcre2_code* code;
  std::string name;  // for messages

  ~Compiled() { pcre2_code_free(code); }
};

SplitPattern::SplitPattern(const std::string& expression, const std::string& where) {
  const std::string name = where + ": the regular expression " + quote(expression);
  if (expression.size() > kLongestExpression)
    throw InputError(name + " has " + std::to_string(expression.size()) + " bytes, the limit is " +
                     std::to_string(kLongestExpression));
  int error = 0;
  size_t offset = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                    // UCP: \s is Unicode's. \C would cut characters in two.
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (!code)
    throw InputError(name + " is wrong at byte " + std::to_string(offset) + ": " +
                     pcre2_message(error));
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // or else the interpreter does it
  compiled_.reset(new Compiled{code, name});
}

std::optional<SplitPattern::Match> SplitPattern::find(std::string_view text, size_t from) const {
  static thread_local MatchScratch scratch;
  const int result =
      pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                  PCRE2_NO_UTF_CHECK, scratch.data, scratch.context);
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0)
    throw InputError(compiled_->name + " gives up on a text of " + std::to_string(text.size()) +
                     " bytes: " + pcre2_message(result));
  const size_t* found = pcre2_get_ovector_pointer(scratch.data);
  const size_t begin = std::max(found[0], from);  // \K can move it
  return Match{begin, std::max(found[1], begin)};
}

}  // namespace dp
