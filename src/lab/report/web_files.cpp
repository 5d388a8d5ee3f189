// The files of web/ and the chart libraries as bytes of the program, put there by the assembler.
#include "report/page.h"

// DP_WEB_FILE(name, path): the bytes from name_begin to name_end.
#define DP_WEB_FILE(name, path)                                          \
  asm(".section .rodata\n" #name "_begin:\n.incbin \"" path "\"\n" #name \
      "_end:\n.byte 0\n.previous\n");                                    \
  extern "C" const char name##_begin[], name##_end[];

DP_WEB_FILE(dp_web_frame, DP_WEB_DIR "/page.html")
DP_WEB_FILE(dp_web_style, DP_WEB_DIR "/style.css")
DP_WEB_FILE(dp_web_script, DP_WEB_SCRIPT)
DP_WEB_FILE(dp_web_libraries, DP_WEB_LIBRARIES)

namespace dp::report {

WebFiles web_files() {
  const auto text = [](const char* begin, const char* end) {
    return std::string_view(begin, static_cast<size_t>(end - begin));
  };
  return {text(dp_web_frame_begin, dp_web_frame_end), text(dp_web_style_begin, dp_web_style_end),
          text(dp_web_script_begin, dp_web_script_end),
          text(dp_web_libraries_begin, dp_web_libraries_end)};
}

}  // namespace dp::report
