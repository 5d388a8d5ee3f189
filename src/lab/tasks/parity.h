// Parity: is the number of ones odd?
#pragma once
#include "tasks/formal_language.h"

namespace dp {

struct ParityOptions {
  static constexpr const char* kName = "parity";
  static constexpr const char* kHelp = "is the number of ones odd?";

  int64_t min_length = 3;    // of sequences to train with
  bool every_token = false;  // ask at every token of these, not only at the last

  Settings settings();
  std::string describe() const { return kName; }
  std::shared_ptr<const Task> make_task() const;
};

/// L bits, each 0 or 1 with equal probability; L is the length of the task.
///
///   tokens    1  0  1  1  PAD            the bits are tokens 0 and 1
///   targets   -  -  -  1   -             with every_token: 1 1 0 1 -
///
/// every_token is about training alone: validation and test always ask at the last token.
class Parity final : public FormalLanguage {
 public:
  /// Throws InputError that names the option and its range.
  explicit Parity(const ParityOptions& options)
      : FormalLanguage(options.min_length, 1), every_token_(options.every_token) {}

  int64_t pad() const override { return 2; }
  std::string token_name(int64_t token) const override;
  double chance() const override { return 0.5; }
  int64_t num_tokens(int64_t length) const override { return length; }
  bool splits_are_disjoint(int64_t length) const override { return space_is_divided(2, length); }

 protected:
  int64_t num_symbols(int64_t length) const override { return length; }
  void draw(RandomStream& random, std::span<int32_t> symbols) const override;
  void write(std::span<const int32_t> symbols, Split split, int64_t* tokens,
             int64_t* targets) const override;

 private:
  bool every_token_;
};

}  // namespace dp
