#include "tasks/parity.h"

namespace dp {

Settings ParityOptions::settings() {
  return {min_length_setting(min_length, 1),
          choice_setting(
              "answers", "task.answers", {"end", "every"},
              [this]() -> std::string { return every_token ? "every" : "end"; },
              [this](const std::string& value) { every_token = value == "every"; },
              "ask in training at the end only, as tests do, or at every token")};
}

std::shared_ptr<const Task> ParityOptions::make_task() const {
  return std::make_shared<Parity>(*this);
}

std::string Parity::token_name(int64_t token) const {
  return token == pad() ? "PAD" : std::to_string(token);
}

void Parity::draw(RandomStream& random, std::span<int32_t> symbols) const {
  for (int32_t& bit : symbols) bit = static_cast<int32_t>(random.below(2));
}

void Parity::write(std::span<const int32_t> symbols, Split split, int64_t* tokens,
                   int64_t* targets) const {
  const bool all = every_token_ && split == Split::kTrain;
  int64_t parity = 0;
  for (size_t t = 0; t < symbols.size(); ++t) {
    parity ^= symbols[t];
    tokens[t] = symbols[t];
    if (all || t + 1 == symbols.size()) targets[t] = parity;
  }
}

}  // namespace dp
