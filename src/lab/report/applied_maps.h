// The matrix that the last layer of a compiled model applies to its state at each token, computed from its weights.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "nn/language_model.h"
#include "theory/matrix.h"
#include "theory/problem.h"

namespace dp::report {

/// At one token the state M of n rows becomes `matrix` M.
struct AppliedMap {
  int32_t element = 0;                    // of the group: the token
  std::string name;                       // of the element
  int64_t order = 1;                      // of the element
  std::vector<double> betas;              // of the factors, the first of which acts first
  std::vector<std::vector<double>> keys;  // [factors][n], of length 1; of length 0 where beta is 0
  theory::Matrix matrix;                  // [n,n], the product of the factors and the gate
};

struct AppliedMaps {
  int64_t layer = 0;        // the last
  int64_t dimension = 1;    // n
  int64_t copies = 1;       // of each row in a state of the model
  bool along_word = false;  // there is a map for each symbol of a word, not of the alphabet
  int64_t heads = 1;        // that do this
  double heads_differ = 0;  // by at most this in an entry of a matrix
  bool up_to_sign =
      false;  // the matrices are those of the elements' permutations but for signs (Head::swap)
  std::vector<AppliedMap> maps;
};

/// Of a group's model. With one layer the map depends on the token alone, and there is one for each symbol of
/// the alphabet; otherwise there is one for each symbol of `word`. Copies of a row (theory/network.h) are
/// found by their equal entries in all keys, and averaged. Throws InputError if no head has any keys.
AppliedMaps applied_maps(const LanguageModel& model, const theory::Problem& problem,
                         const FiniteGroup& group, const std::vector<int32_t>& word);

/// How far the maps of the alphabet are from multiplying as the group does, leaving out signs if they are `up_to_sign`.
struct ProductCheck {
  int64_t products = 0;  // pairs whose product has a map, too
  double largest = 0;    // difference of an entry
};
ProductCheck check_products(const AppliedMaps& maps, const FiniteGroup& group);

}  // namespace dp::report
