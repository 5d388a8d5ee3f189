// The files of web/ and the chart libraries as bytes of the program, put there by the assembler.
#include "report/page.h"

// DP_WEB_FILE(name, path): the bytes from name_begin to name_end.
#define DP_WEB_FILE(name, path)                                          \
  asm(".section .rodata\n" #name "_begin:\n.incbin \"" path "\"\n" #name \
      "_end:\n.byte 0\n.previous\n");                                    \
  extern "C" const char name##_begin[], name##_end[];

DP_WEB_FILE(dp_web_page, DP_WEB_DIR "/page.html")
DP_WEB_FILE(dp_web_style, DP_WEB_DIR "/style.css")
DP_WEB_FILE(dp_web_script, DP_WEB_DIR "/page.js")
DP_WEB_FILE(dp_web_charts, DP_WEB_CHARTS)
DP_WEB_FILE(dp_web_report, DP_WEB_DIR "/report.html")
DP_WEB_FILE(dp_web_analysis, DP_WEB_DIR "/analysis.html")
DP_WEB_FILE(dp_web_theory, DP_WEB_DIR "/theory.html")
DP_WEB_FILE(dp_web_compiled, DP_WEB_DIR "/compiled.html")

namespace dp::report {

WebFiles web_files() {
  const auto text = [](const char* begin, const char* end) {
    return std::string_view(begin, static_cast<size_t>(end - begin));
  };
  return {text(dp_web_page_begin, dp_web_page_end),
          text(dp_web_style_begin, dp_web_style_end),
          text(dp_web_script_begin, dp_web_script_end),
          text(dp_web_charts_begin, dp_web_charts_end),
          text(dp_web_report_begin, dp_web_report_end),
          text(dp_web_analysis_begin, dp_web_analysis_end),
          text(dp_web_theory_begin, dp_web_theory_end),
          text(dp_web_compiled_begin, dp_web_compiled_end)};
}

}  // namespace dp::report
