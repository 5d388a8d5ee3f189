// The page about spectra and stability, as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "theory/claims.h"

namespace dp::report {

/// The JSON of the page (web/README.md, "Theory"). Angles are in degrees.
nlohmann::ordered_json theory_data(const theory::TheoryResults& results);

}  // namespace dp::report
