// An analysis as JSON, as `dp analyze --json` writes it.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "analysis/analysis.h"

namespace dp::analysis {

/// With E elements, F factors per element, K the key width and M eigenvalues per element (F, at most K,
/// where "exact"; else K). A score is {"sequences": share right everywhere, "answers": share right}.
///
///   group          "S4"
///   elements       [E] of {"name": "(1 2 3)", "order": 3}; all lists of E below are in this order
///   factors        F; factor p N + j is the j-th of the element's token p
///   length, sequences   what accuracy was measured and averages were taken over
///   near_two       the beta from which on a factor counts as a reflection
///   accuracy       score of the whole model
///   most_important {"layer", "head"}
///   summary        [sentences]
///   layers         [L] of
///     exact              whether betas and keys depend on the token alone; else they are means
///     fewest_occurrences of any element in the sequences averaged over; 1 if exact
///     heads              [H] of
///       head, verdict    its number; a sentence
///       reflections, as_in_paper   the verdict's two findings (analysis/verdict.h)
///       accuracy_alone, accuracy_cut   scores with only this head of the layer, and without it
///       gate             [E]
///       eigenvalues      [E][M] of [real, imaginary], of the (mean) transition matrix, those farthest from
///                        the gate first; the K - M others equal the gate
///       transition_spread  [E] root mean square distance of transition matrices from their mean; 0 if exact
///       keys             {"components_for_95_percent", "explained": [K] cumulative shares of the variance,
///                        "explained_uncentred": [K] likewise of the mean square} over all factors' keys
///       factors          [F] of {"mean", "least", "most": of beta over elements, "near_two": elements with
///                        beta near 2, "beta": [E], "beta_std": [E] over occurrences, "keys": as above,
///                        "coordinates": [E][3] keys along the head's first three centred components}
nlohmann::ordered_json to_json(const Analysis& analysis);

}  // namespace dp::analysis
