#include "tasks/formal_language.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace dp {

FormalLanguage::FormalLanguage(int64_t min_length, int64_t shortest) : min_length_(min_length) {
  if (min_length < shortest)
    throw InputError("min_length: expected at least " + std::to_string(shortest) + ", found " +
                     std::to_string(min_length));
}

void FormalLanguage::make_sequence(const SequenceKey& key, int64_t* tokens,
                                   int64_t* targets) const {
  RandomStream random(key);
  int64_t length = key.length;
  if (key.split == Split::kTrain && length > min_length_)
    length = min_length_ + random.below(static_cast<uint32_t>(length - min_length_ + 1));
  thread_local std::vector<int32_t> symbols;
  symbols.resize(static_cast<size_t>(num_symbols(length)));
  draw_sequence(random, key.split, splits_are_disjoint(length), symbols,
                [this](RandomStream& stream, std::span<int32_t> drawn) { draw(stream, drawn); });
  const int64_t T = num_tokens(key.length);
  std::fill_n(tokens, T, pad());
  std::fill_n(targets, T, kNothingAsked);
  write(symbols, key.split, tokens, targets);
}

Setting min_length_setting(int64_t& min_length, int64_t shortest) {
  return integer_setting("min-length", "task.min_length", min_length, shortest, int64_t{1} << 20,
                         "shortest training sequence; lengths are drawn from here to --length");
}

}  // namespace dp
