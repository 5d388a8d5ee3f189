#include "theory/constructions/recalling.h"

#include "theory/constructions/counting.h"

namespace dp::theory {

Features add_recall(Network& network, Layer& layer, const std::vector<int64_t>& what,
                    const Features& count, int64_t age) {
  const auto width = static_cast<int64_t>(what.size());
  const Features slots = network.add_slots(width);
  Head& head = layer.heads.emplace_back(count.size, Reading::kDirection, count, slots);
  for (int64_t c = 0; c < count.size; ++c) {
    head.write(count[c], 0, unit_vector(count.size, c));
    head.query(count[c], unit_vector(count.size, (c - age + count.size) % count.size));
  }
  for (int64_t i = 0; i < width; ++i)
    head.value(what[static_cast<size_t>(i)], 0, unit_vector(width, i));
  return slots;
}

Features add_place_recall(Network& network, Layer& layer, const std::vector<CodedFeature>& what,
                          int64_t codes, const Features& count, int64_t place, bool previous) {
  const int64_t m = count.size / 2;
  const Features slots = network.add_slots(codes);
  Head& head = layer.heads.emplace_back(count.size, Reading::kDirection, count, slots);
  for (int64_t c = 0; c < count.size; ++c) {
    head.write(count[c], 0, unit_vector(count.size, c));
    const bool even_block = c >= 1 && c <= m;
    const int64_t row = even_block == previous ? m + place : place;
    head.query(count[c], unit_vector(count.size, row % count.size));
  }
  for (const auto& [feature, code] : what) head.value(feature, 0, unit_vector(codes, code));
  return slots;
}

// The logit of a word counts its symbols that are where they should be. Of words that are not full length, BOS
// must come before the first symbol.
Construction recall(const Problem& problem, int64_t d, int64_t num_householder,
                    Architecture architecture) {
  Construction c{Network(problem.vocab_size, problem.bos + 1, architecture),
                 "any function of the last d tokens (lemma on recalling)",
                 "rows overwritten in turn", num_householder};
  const Features count = add_counter(c.network, d, num_householder);
  Layer& layer = c.network.add_layer();
  std::vector<int64_t> what;
  for (int64_t token = 0; token <= problem.bos; ++token) what.push_back(c.network.tokens()[token]);
  std::vector<Features> slots;
  for (int64_t age = 0; age < d; ++age)
    slots.push_back(add_recall(c.network, layer, what, count, age));

  // Words as recall_automaton() numbers them: by length, then as numbers in base s.
  const int64_t s = problem.automaton.num_symbols();
  int64_t state = 0, words = 1;
  for (int64_t length = 0; length <= d; ++length, words *= s) {
    for (int64_t word = 0; word < words; ++word, ++state) {
      Terms terms;
      int64_t rest = word;
      for (int64_t age = 0; age < length; ++age, rest /= s)
        terms.emplace_back(slots[static_cast<size_t>(age)][rest % s], kSlotScale);
      if (length < d)
        terms.emplace_back(slots[static_cast<size_t>(length)][problem.bos], kSlotScale);
      c.network.add_logit(problem.state_tokens[static_cast<size_t>(state)], terms);
    }
  }
  return c;
}

}  // namespace dp::theory
