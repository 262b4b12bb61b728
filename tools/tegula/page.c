// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/tegula/page.h"

void page_escape(Text *t, const char *text) {
    for (const char *c = text ? text : ""; *c; c++)
        if (*c == '<')
            text_add(t, "&lt;");
        else if (*c == '&')
            text_add(t, "&amp;");
        else if (*c == '"')
            text_add(t, "&quot;");
        else
            text_bytes(t, c, 1);
}

static const char style[] =
    ":root{color-scheme:light dark;--back:#fff;--text:#1b1d21;--soft:#5c636e;--grid:#e3e6ea;"
    "--time:#0b5cad;--won:#0a7a3f;--model:#b25a00;--roof:#8a2be2}\n"
    "@media(prefers-color-scheme:dark){:root{--back:#14171b;--text:#e8eaed;--soft:#a3abb6;"
    "--grid:#2d333b;--time:#7cb8ff;--won:#5fd38d;--model:#ffb266;--roof:#c79bff}}\n"
    "body{background:var(--back);color:var(--text);font:15px/1.5 system-ui,sans-serif;"
    "max-width:72rem;margin:2rem auto;padding:0 1rem}\n"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.5rem}\n"
    "figure{margin:1rem 0}svg{width:100%;height:auto}\n"
    "figcaption,caption,.soft{color:var(--soft);text-align:left}\n"
    ".label,.value,.tick{fill:var(--text);font:11px ui-monospace,monospace}\n"
    ".label{text-anchor:end}.tick{text-anchor:middle;fill:var(--soft)}\n"
    ".grid{stroke:var(--grid)}.roof{stroke:var(--roof);stroke-dasharray:5 4;stroke-width:1.5}\n"
    ".time{fill:var(--time)}.interval{stroke:var(--time);stroke-width:3;stroke-linecap:round;"
    "opacity:.5}\n"
    ".model{fill:var(--back);stroke:var(--model);stroke-width:1.5}\n"
    ".won .time{fill:var(--won)}.won .interval{stroke:var(--won)}"
    ".won text{fill:var(--won);font-weight:700}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px;width:100%}\n"
    "th,td{text-align:left;padding:.2rem .6rem .2rem 0;border-bottom:1px solid var(--grid);"
    "vertical-align:top}\n"
    "tbody th{font:12px ui-monospace,monospace;white-space:nowrap}"
    ".n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\n"
    "thead th:nth-child(n+3):not(:last-child){text-align:right}summary{cursor:pointer;margin:1rem "
    "0}code{font-family:ui-monospace,monospace}\n";

void page_begin(Text *t, const char *heading, const char *title) {
    text_add(t, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                "<meta name=\"viewport\" content=\"width=device-width\">\n<title>");
    page_escape(t, heading);
    text_add(t, ": ");
    page_escape(t, title);
    text_add(t, "</title>\n<style>%s</style></head>\n<body><main><h1>", style);
    page_escape(t, heading);
    text_add(t, "</h1>\n");
}

void page_end(Text *t) {
    text_add(t, "</main></body></html>\n");
}
