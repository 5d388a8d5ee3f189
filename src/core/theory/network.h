// A model put together by hand: which feature of the residual stream makes which head do what.
//
// The residual stream holds groups of features. In each group just one is 1 and the others are 0, at every token
// from the layer on that writes the group. Heads and rules read features, never each other's rounding errors:
//
// - The squares of the stream always sum to 64 D, because constants fill it up and each group that a rule writes
//   takes the place of a constant 1. The RMS norms therefore divide by exactly 8.
// - beta is 2 sigmoid(u), exactly 0, 1 and 2 at u = -200, 0 and 200; the gate is exactly 1 and 0 likewise.
// - Keys are SiLUs of what projections give, brought to unit length. SiLU is never below -0.278, so a key with
//   entries of both signs is small before that, and the 1e-6 in the L2 norm shortens it; each coordinate is
//   therefore there several times, which makes keys longer and changes nothing else. What is lost is about 1e-7 of the
//   state for each reflection, and adds up: only groups of matrices that need such keys have them.
// - Keys without negative entries are 64 long before that, and 1e-6 is nothing beside 4096. Those of swaps have four
//   equal entries, two for each of two coordinates, and become 1/2 to the last bit, whatever rounding there is in the
//   features: such a state goes from place to place and loses nothing in any number of tokens.
// - Heads write what they read to slots of the stream, at 1/4096 of its size: too small for the norms to notice.
// - A rule is a pair of units of the MLP whose difference is exactly 0 or 1 (to rounding), not "about" that.
//
// The same description becomes a model with RWKV-7's transitions, diag(w) - 2 k (k*a)^T with w = 1: a = 1 is a
// reflection, a = 1/2 a write, a = 0 nothing, and a that is 1 in a single coordinate a copy. It has no resets.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "io/model_config.h"
#include "theory/weights.h"

namespace dp::theory {

using Vector = std::vector<double>;

/// Entry i of n is 1.
Vector unit_vector(int64_t n, int64_t i);

/// Consecutive dimensions of the residual stream.
struct Features {
  int64_t first = 0, size = 0;
  int64_t operator[](int64_t i) const { return first + i; }
};

/// A linear function of the stream: weights by dimension.
using Terms = std::vector<std::pair<int64_t, double>>;

/// Slots hold what heads read, divided by this.
inline constexpr double kSlotScale = 4096;

/// How much of a state a head reports: its direction, brought to length 1 by the output norm, or the vector
/// itself. The latter takes values so small that norm_eps outweighs them.
enum class Reading { kDirection, kVector };

/// One head of a layer: a state of `dimension` rows. What it does at a token depends on which feature of its
/// `driver` is 1, idle if nothing is said for that; what it asks for, on the queries given.
class Head {
 public:
  Head(int64_t dimension, Reading reading, Features driver, Features slots);

  /// H <- (I - 2 k k^T) H, as factor number `factor` of the token; k a unit vector.
  void reflect(int64_t feature, int64_t factor, Vector k);
  /// Rows i and j of H are swapped, and change their signs. Exact for states that have a single row other than 0.
  void swap(int64_t feature, int64_t factor, int64_t i, int64_t j);
  /// Row `from` of H becomes 0 and is subtracted from row `to`: for a unit vector of states, up to its sign, `from` goes
  /// to `to`. Only RWKV-7's transitions can do that.
  void copy(int64_t feature, int64_t factor, int64_t from, int64_t to);
  /// H <- H + k (v - H^T k)^T: along k, a unit vector, the state becomes the value of that factor.
  void write(int64_t feature, int64_t factor, Vector k);
  /// The value is v if `feature`, of any group, is 1.
  void value(int64_t feature, int64_t factor, Vector v);
  /// H <- 0, before any factor. RWKV-7's transitions cannot do that.
  void reset(int64_t feature);
  /// slots <- H^T q, or its direction, if `feature`, of any group, is 1; q a unit vector.
  void query(int64_t feature, Vector q);

  const Features& slots() const { return slots_; }

 private:
  friend class Network;
  struct Key {
    double beta;
    Vector k;
    int64_t copied = -1;  // row `from` of a copy
  };
  int64_t dimension_;
  Reading reading_;
  Features driver_, slots_;
  std::map<std::pair<int64_t, int64_t>, Key> keys_;       // by feature and factor
  std::map<std::pair<int64_t, int64_t>, Vector> values_;  // by feature and factor
  std::map<int64_t, Vector> queries_;                     // by feature
  std::vector<int64_t> resets_;
  bool swaps_ = false;
};

/// Adds `then` to the stream if the sum of `when` is above `threshold`; it is never closer to that than `margin`.
struct Rule {
  Terms when;
  double threshold, margin;
  Terms then;
};

/// A rule that asks for all of these features.
Rule all_of(std::span<const int64_t> features, Terms then);

struct Layer {
  std::deque<Head> heads;
  std::vector<Rule> rules;
};

struct BuildOptions {
  // Factors per token, at least as many as any head uses; 0: just as many.
  int64_t num_householder = 0;
  bool bfloat16 = false;  // weights that lose as little as possible when rounded to that
};

class Network {
 public:
  /// The tokens 0 .. num_inputs-1 are the first group of features; those after them are for answers only.
  Network(int64_t vocab_size, int64_t num_inputs,
          Architecture architecture = Architecture::kDeltaProduct);

  const Features& tokens() const { return tokens_; }
  /// A group that the rules of one layer write: exactly one of them to 1 at every token.
  Features add_group(int64_t size);
  /// Dimensions for what a head reads.
  Features add_slots(int64_t size);
  Layer& add_layer();
  /// Layer number `index`, added with those before it if they are not there yet.
  Layer& layer_at(int64_t index);
  Layer& layer(int64_t index) { return layers_[static_cast<size_t>(index)]; }
  int64_t num_layers() const { return static_cast<int64_t>(layers_.size()); }

  /// Adds to the logit of a token.
  void add_logit(int64_t token, const Terms& terms);

  /// The shape of what build() makes, before any memory is taken for it.
  ModelConfig config(int64_t bos, const BuildOptions& options = {}) const;
  Weights build(int64_t bos, const BuildOptions& options = {}) const;

 private:
  class Writer;
  int64_t vocab_size_, next_dimension_;
  Architecture architecture_;
  Features tokens_;
  std::vector<Features> groups_;
  std::deque<Layer> layers_;
  std::map<int64_t, Terms> logits_;
};

}  // namespace dp::theory
