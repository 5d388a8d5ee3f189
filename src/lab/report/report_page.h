// The page about training runs.
#pragma once
#include <string>

#include "report/page.h"
#include "report/run.h"

namespace dp::report {

std::string make_page(const Runs& runs, const WebFiles& files);

}  // namespace dp::report
