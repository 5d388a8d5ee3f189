// Modular arithmetic: what is an expression modulo 5?
#pragma once
#include "tasks/formal_language.h"

namespace dp {

struct ModularArithmeticOptions {
  static constexpr const char* kName = "mod-arith";
  static constexpr const char* kHelp = "what is 2+1-2*2-3 modulo 5?";

  int64_t min_length = 3;  // of sequences to train with

  Settings settings();
  std::string describe() const { return kName; }
  std::shared_ptr<const Task> make_task() const;
};

struct BracketsOptions : ModularArithmeticOptions {
  static constexpr const char* kName = "mod-arith-brackets";
  static constexpr const char* kHelp = "what is ((1-(-2))+((4)+3)) modulo 5?";

  std::string describe() const { return kName; }
  std::shared_ptr<const Task> make_task() const;
};

/// The length of the task counts the expression, '=' and the answer, which is the target and not a token:
///
///   tokens    1  +  2  =  PAD            length 5; digits are tokens 0 to 4
///   targets   -  -  -  3   -
///
/// Without brackets digits and operators take turns, each drawn with equal probability, and * binds
/// more closely than + and -. There are only odd lengths; an even one means the next shorter.
///
/// With brackets, as in Deletang et al. (ICLR 2023): expressions of 1 to 4 tokens are d, -d, (d), (-d),
/// and one of n >= 5 is (A op B), where A has 1 to n-4 tokens with equal probability and B the rest.
class ModularArithmetic final : public FormalLanguage {
 public:
  static constexpr int64_t kModulus = 5, kShortest = 3;
  enum Token : int32_t { kPlus = kModulus, kMinus, kTimes, kEquals, kOpen, kClose };

  /// Throws InputError that names the option and its range.
  ModularArithmetic(const ModularArithmeticOptions& options, bool brackets);

  int64_t pad() const override { return (brackets_ ? kClose : kEquals) + 1; }
  std::string token_name(int64_t token) const override;
  double chance() const override { return 1.0 / kModulus; }
  int64_t shortest() const override { return kShortest; }
  int64_t num_tokens(int64_t length) const override { return num_symbols(length) + 1; }
  bool splits_are_disjoint(int64_t length) const override { return length >= divided_from_; }

  /// The value, 0 to 4, of an expression of tokens without '='. Throws InputError if it is not an expression.
  static int64_t value(std::span<const int32_t> expression);

 protected:
  int64_t num_symbols(int64_t length) const override {
    return brackets_ ? length - 2 : (length - 1) / 2 * 2 - 1;
  }
  void draw(RandomStream& random, std::span<int32_t> symbols) const override;
  void write(std::span<const int32_t> symbols, Split split, int64_t* tokens,
             int64_t* targets) const override;

 private:
  bool brackets_;
  int64_t divided_from_;  // the shortest length with enough sequences for that
};

}  // namespace dp
