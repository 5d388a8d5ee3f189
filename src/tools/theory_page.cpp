#include "tools/theory_page.h"

#include <nlohmann/json.hpp>

#include "report/page.h"
#include "report/theory_results.h"

namespace dp::cli {

void prepare_theory_page() {}

void write_theory_page(const theory::TheoryResults& results, const std::filesystem::path& page) {
  report::write_page(report::theory_data(results), page);
}

}  // namespace dp::cli
