// The page of dp theory, which only dp-lab writes.
#pragma once
#include <filesystem>

#include "theory/claims.h"

namespace dp::cli {

/// Before any work: whatever cannot be written in this program is done by dp-lab from the beginning.
void prepare_theory_page();
void write_theory_page(const theory::TheoryResults& results, const std::filesystem::path& page);

}  // namespace dp::cli
