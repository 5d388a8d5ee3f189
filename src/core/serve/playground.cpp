// The page at /, from web/, as bytes of the program.
#include <string_view>

#include "serve/server.h"

// DP_SERVE_FILE(name, path): the bytes from name_begin to name_end.
#define DP_SERVE_FILE(name, path)                                        \
  asm(".section .rodata\n" #name "_begin:\n.incbin \"" path "\"\n" #name \
      "_end:\n.byte 0\n.previous\n");                                    \
  extern "C" const char name##_begin[], name##_end[];

DP_SERVE_FILE(dp_serve_page, DP_WEB_DIR "/playground.html")
DP_SERVE_FILE(dp_serve_style, DP_WEB_DIR "/style.css")
DP_SERVE_FILE(dp_serve_own_style, DP_WEB_DIR "/playground.css")
DP_SERVE_FILE(dp_serve_script, DP_WEB_DIR "/playground.js")

namespace dp::serve {

std::string playground_page() {
  const auto text = [](const char* begin, const char* end) {
    return std::string_view(begin, static_cast<size_t>(end - begin));
  };
  std::string page(text(dp_serve_page_begin, dp_serve_page_end));
  const auto put = [&](std::string_view place, std::string_view content) {
    page.replace(page.find(place), place.size(), content);
  };
  put("{{style}}", text(dp_serve_style_begin, dp_serve_style_end));
  put("{{playground_style}}", text(dp_serve_own_style_begin, dp_serve_own_style_end));
  put("{{script}}", text(dp_serve_script_begin, dp_serve_script_end));
  return page;
}

}  // namespace dp::serve
