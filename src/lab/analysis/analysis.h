// How a model trained on a word problem solves it: betas, keys and transition matrices of every group
// element, and which head the answers depend on. Plain numbers, for tables, files and pages.
// E elements, F factors per element, K key width.
#pragma once
#include <array>
#include <complex>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tasks/random_stream.h"

namespace dp {
class LanguageModel;
class WordProblem;
}  // namespace dp

namespace dp::analysis {

struct Options {
  int64_t length =
      128;  // of the sequences to average over where factors depend on what came before
  int64_t sequences = 256, batch_size = 64;
  Split split = Split::kTest;
  uint64_t seed = 0;
};

/// Shares of sequences that are right everywhere, and of right answers.
struct Score {
  double sequences = 0, answers = 0;
};
using Measure = std::function<Score(const LanguageModel&)>;

/// Principal components of keys: the shares [K] of the variance that the first 1, 2, .. of them hold.
struct KeySpace {
  std::vector<double> centred;  // of the variance around the mean key, as is usual
  std::vector<double>
      uncentred;  // of the mean square: how many dimensions the keys themselves span
};
/// How many components hold at least this share of the variance.
int64_t components_for(const std::vector<double>& cumulative, double share);

using Table = std::vector<std::vector<double>>;

/// A head of values, with the keys it uses. Element e is Analysis::elements[e]; factor p N + j is the
/// j-th of token p of the element.
struct Head {
  int64_t layer = 0, head = 0;
  Table beta, beta_std;                                        // [E][F], over occurrences
  std::vector<double> gate;                                    // [E], 1 without a forget gate
  std::vector<std::vector<std::complex<double>>> eigenvalues;  // [E][M] of the mean transition
  std::vector<double> spread;  // [E] root mean square distance of transitions from their mean
  std::vector<KeySpace> factor_keys;  // [F], of all elements' keys of one factor
  KeySpace keys;                      // of all factors together, as the paper has it
  /// [F][E] mean keys along the first three components of all factors' keys, centred.
  std::vector<std::vector<std::array<double, 3>>> coordinates;
  Score alone;  // with all other heads of its layer silenced
  Score cut;    // with this one silenced

  /// What hangs on this head: the first by sequences, the second, for ties, by answers.
  std::array<double, 2> weight() const {
    return {alone.sequences - cut.sequences, alone.answers - cut.answers};
  }
};

struct Layer {
  /// Factors depend on the token alone: there is nothing to average, M is the smaller of F and K, and
  /// the other eigenvalues are the gate. Otherwise M is K.
  bool exact = true;
  int64_t fewest_occurrences = 1;  // of any element
  std::vector<Head> heads;
};

struct Element {
  std::string name;
  int64_t order = 1;  // the least power that is the identity
};

struct Analysis {
  std::string group;
  std::vector<Element> elements;  // of the alphabet, by order
  int64_t factors = 1;            // F: per token, times tokens per element
  Options options;
  Score whole;  // of the model as it is
  std::vector<Layer> layers;

  /// The head with the greatest weight().
  const Head& most_important() const;
};

/// `measure` is called 1 + 2 heads times. Throws InputError if the model is not one of the task's, or if
/// an element never comes up in the sequences that are averaged over.
Analysis analyze(const LanguageModel& model, const WordProblem& task, const Options& options,
                 const Measure& measure);

}  // namespace dp::analysis
