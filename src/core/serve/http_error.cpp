#include "serve/http_error.h"

#include "serve/completion_json.h"

namespace dp::serve {

HttpResponse error_response(int status, const std::string& message, const std::string& type,
                            const std::string& param, const std::string& code) {
  return {status, kJson, error_json(message, type, param, code) + "\n"};
}

HttpResponse http_error(int status, const std::string& message) {
  return error_response(status, message,
                        status == 503   ? "overloaded_error"
                        : status >= 500 ? "server_error"
                                        : kInvalidRequest);
}

}  // namespace dp::serve
