// One automaton inside a network: a level of a cascade, or a whole automaton for RWKV-7.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "algebra/automaton.h"
#include "theory/constructions/level_points.h"
#include "theory/network.h"

namespace dp::theory {

/// What a level receives: features of one group, each of them the start or one of the maps.
struct LevelInput {
  Features driver;
  std::vector<int64_t> starts;                    // features that mean the start
  std::vector<std::pair<int64_t, int32_t>> maps;  // feature, and which map of the level
  int64_t ready = 0;                              // the first layer that may read the driver
};

/// A level to be added: states, start, maps, and the words of maps that can occur.
struct LevelPlan {
  int64_t start = 0;
  std::vector<StateMap> maps;
  /// All words of that many maps that can follow one another, at most so many: throws InputError beyond.
  std::function<std::set<std::vector<int32_t>>(int64_t length)> words;
};

struct AddedLevel {
  Features now;       // the state after the token, as a group of features
  int64_t layer = 0;  // the layer whose rules write it
};

/// How the level is done with n_h factors per token: in one layer if each map takes at most so many, and otherwise in
/// blocks of m tokens.
int64_t block_length(const LevelPlan& plan, const LevelPoints& points, int64_t num_householder);

/// Adds the level, with a direct layer for m = 1, and with delayed factors otherwise: while a block of m tokens is
/// read, the product of the block before it is applied, a part per token. `counts` has t mod 2m for each m that was asked for,
/// BOS being t = 0, to be filled as needed.
AddedLevel add_level(Network& network, const LevelPlan& plan, const LevelPoints& points,
                     const LevelInput& input, int64_t m, int64_t num_householder,
                     std::map<int64_t, Features>& counts);

/// A single level in one direct layer, whose states are the answers: the logits of `tokens`, one for each state or -1
/// for none, are read from the state.
void add_answering_level(Network& network, const LevelPlan& plan, const LevelPoints& points,
                         const LevelInput& input, const std::vector<int64_t>& tokens);

}  // namespace dp::theory
