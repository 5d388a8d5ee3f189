// What /openapi.json says about requests, for tools that write clients or try requests.
#pragma once
#include <string>

#include "serve/completion_request.h"

namespace dp::serve {

std::string api_description(const RequestLimits& limits);

}  // namespace dp::serve
