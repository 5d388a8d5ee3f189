// A chat template and what it stands for, as text.
#pragma once
#include <string>

#include "chat/syntax.h"

namespace dp::chat {

struct RenderLimits {
  size_t output_bytes = 16 << 20;
  size_t cost = 64 << 20;  // in bytes made and looked at; a step of the template counts 16
};

/// `variables` is a mapping. Throws TemplateError, naming the line.
std::string render_template(const Body& body, const Value& variables,
                            const RenderLimits& limits = {});

}  // namespace dp::chat
