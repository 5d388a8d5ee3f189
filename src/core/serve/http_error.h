// Errors as OpenAI's clients expect them: a status, and {"error": {"message", "type", "param", "code"}}.
#pragma once
#include <stdexcept>
#include <string>

#include "serve/http_server.h"

namespace dp::serve {

inline constexpr const char* kJson = "application/json";
inline constexpr const char* kInvalidRequest = "invalid_request_error";

/// An empty param or code is null.
HttpResponse error_response(int status, const std::string& message, const std::string& type,
                            const std::string& param = "", const std::string& code = "");

/// The type that goes with a status that HTTP itself demands.
HttpResponse http_error(int status, const std::string& message);

/// A request that gets another status than 200 and 400 (RequestError).
struct HttpProblem : std::runtime_error {
  HttpProblem(int s, const std::string& message, std::string t, std::string p, std::string c)
      : std::runtime_error(message),
        status(s),
        type(std::move(t)),
        param(std::move(p)),
        code(std::move(c)) {}
  int status;
  std::string type, param, code;
};

}  // namespace dp::serve
