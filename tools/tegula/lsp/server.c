// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula lsp: a language server (LSP 3.17) on standard input and output.
#include "tools/tegula/lsp/lsp.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- answers ------------------------------------------------------------------------------- */

json_t *request_fail(Request *r, int error, const char *message) {
    r->error = error;
    r->message = message;
    return NULL;
}

static void send_error(Server *s, const json_t *id, int error, const char *message) {
    json_t *body = json_pack("{s:i,s:s}", "code", error, "message", message);
    transport_send(&s->transport, json_pack("{s:s,s:O,s:o}", "jsonrpc", "2.0", "id",
                                            id ? (json_t *)id : json_null(), "error", body));
}

static void send_result(Server *s, const json_t *id, json_t *result) {
    transport_send(&s->transport, json_pack("{s:s,s:O,s:o}", "jsonrpc", "2.0", "id", (json_t *)id,
                                            "result", result ? result : json_null()));
}

/* ---- the life of the server ---------------------------------------------------------------- */

static json_t *capabilities(void) {
    enum { INCREMENTAL = 2 };
    json_t *all =
        json_pack("{s:s,s:{s:b,s:i,s:{s:b}}}", "positionEncoding", "utf-16", "textDocumentSync",
                  "openClose", 1, "change", INCREMENTAL, "save", "includeText", 0);
    static const char *const yes[] = {
        "hoverProvider",          "definitionProvider",         "referencesProvider",
        "documentSymbolProvider", "documentFormattingProvider", "documentHighlightProvider",
        "inlayHintProvider",
    };
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        json_object_set_new(all, yes[i], json_true());
    json_object_set_new(all, "completionProvider",
                        json_pack("{s:[s,s,s]}", "triggerCharacters", ".", "\"", "/"));
    json_object_set_new(all, "signatureHelpProvider",
                        json_pack("{s:[s,s]}", "triggerCharacters", "(", ","));
    json_object_set_new(all, "renameProvider", json_pack("{s:b}", "prepareProvider", 1));
    json_object_set_new(all, "codeActionProvider",
                        json_pack("{s:[s]}", "codeActionKinds", "quickfix"));
    json_object_set_new(all, "semanticTokensProvider",
                        json_pack("{s:o,s:b}", "legend", token_legend(), "full", 1));
    json_object_set_new(
        all, "workspace",
        json_pack("{s:{s:b,s:b}}", "workspaceFolders", "supported", 1, "changeNotifications", 1));
    return all;
}

typedef void FolderChange(Ctx *ctx, Server *s, const char *uri);

static void change_folders(Request *r, const json_t *folders, FolderChange *change) {
    for (size_t i = 0; i < json_array_size(folders); i++) {
        const char *uri = json_string_value(json_object_get(json_array_get(folders, i), "uri"));
        if (uri) change(r->ctx, r->server, uri);
    }
}

static void set_folders(Request *r) {
    const char *uri = json_string_value(json_object_get(r->params, "rootUri"));
    change_folders(r, json_object_get(r->params, "workspaceFolders"), workspace_add);
    if (!r->server->n_roots && uri) workspace_add(r->ctx, r->server, uri);
}

static json_t *folders_changed(Request *r) {
    const json_t *event = json_object_get(r->params, "event");
    change_folders(r, json_object_get(event, "removed"), workspace_remove);
    change_folders(r, json_object_get(event, "added"), workspace_add);
    documents_outdated(r->ctx, r->server);
    return NULL;
}

/// Adds the folders of `initializationOptions.paths` to those of --path.
static void add_paths(Request *r) {
    const json_t *paths =
        json_object_get(json_object_get(r->params, "initializationOptions"), "paths");
    Server *s = r->server;
    for (size_t i = 0; i < json_array_size(paths); i++) {
        const char *path = json_string_value(json_array_get(paths, i));
        char **all = path ? realloc(s->paths, sizeof *all * (size_t)(s->n_paths + 1)) : NULL;
        if (!all) continue;
        s->paths = all;
        all[s->n_paths] = strdup(path);
        if (all[s->n_paths]) s->n_paths++;
    }
}

static json_t *initialize(Request *r) {
    if (r->server->initialized)
        return request_fail(r, RPC_INVALID, "the server is already initialized");
    r->server->initialized = true;
    set_folders(r);
    add_paths(r);
    return json_pack("{s:o,s:{s:s,s:s}}", "capabilities", capabilities(), "serverInfo", "name",
                     "tegula", "version", TEGULA_VERSION);
}

static json_t *shut_down(Request *r) {
    r->server->shut_down = true;
    return NULL;
}

/* ---- documents ----------------------------------------------------------------------------- */

static json_t *did_open(Request *r) {
    const json_t *d = json_object_get(r->params, "textDocument");
    const char *uri = json_string_value(json_object_get(d, "uri"));
    const json_t *text = json_object_get(d, "text");
    if (uri && json_is_string(text))
        document_open(r->ctx, r->server, uri, json_string_value(text), json_string_length(text),
                      json_integer_value(json_object_get(d, "version")));
    return NULL;
}

/// Applies a change to a range, or to the whole text.
static void change_document(Request *r, const json_t *change) {
    Document *d = r->document;
    const json_t *text = json_object_get(change, "text"), *range = json_object_get(change, "range");
    Position from, to;
    if (!json_is_string(text)) return;
    size_t begin = 0, end = d->n;
    if (json_is_object(range)) {
        if (!json_read_position(json_object_get(range, "start"), &from) ||
            !json_read_position(json_object_get(range, "end"), &to))
            return;
        TextMap map;
        text_map(r->ctx, &map, d->text, d->n);
        begin = map_offset(&map, from);
        end = map_offset(&map, to);
        if (end < begin) end = begin;
    }
    document_replace(d, begin, end, json_string_value(text), json_string_length(text));
}

static json_t *did_change(Request *r) {
    const json_t *changes = json_object_get(r->params, "contentChanges");
    if (!r->document) return NULL;
    const json_t *version = json_object_get(json_object_get(r->params, "textDocument"), "version");
    if (json_is_integer(version)) r->document->version = json_integer_value(version);
    for (size_t i = 0; i < json_array_size(changes); i++)
        change_document(r, json_array_get(changes, i));
    document_outdated(r->server, r->document);
    return NULL;
}

static json_t *did_close(Request *r) {
    if (!r->document) return NULL;
    transport_send(&r->server->transport,
                   json_pack("{s:s,s:s,s:{s:s,s:[]}}", "jsonrpc", "2.0", "method",
                             "textDocument/publishDiagnostics", "params", "uri", r->document->uri,
                             "diagnostics"));
    document_close(r->server, r->document);
    return NULL;
}

/// Files may have changed on disk: all documents are analysed again.
static json_t *files_changed(Request *r) {
    documents_outdated(r->ctx, r->server);
    return NULL;
}

/* ---- dispatch ------------------------------------------------------------------------------ */

enum MethodFlag {
    NOTIFICATION = 1,
    ANALYSED = 2, // needs an open document, and its analysis
    AT = 4,       // needs a position in it
    EARLY = 8,    // may come before `initialize`
    DOCUMENT = 16 // needs an open document
};

static const struct Method {
    const char *name;
    RequestHandler *handle;
    int flags;
} methods[] = {
    {"initialize", initialize, EARLY},
    {"shutdown", shut_down, 0},
    {"textDocument/didOpen", did_open, NOTIFICATION},
    {"textDocument/didChange", did_change, NOTIFICATION},
    {"textDocument/didClose", did_close, NOTIFICATION},
    {"textDocument/didSave", files_changed, NOTIFICATION},
    {"workspace/didChangeWatchedFiles", files_changed, NOTIFICATION},
    {"workspace/didChangeWorkspaceFolders", folders_changed, NOTIFICATION},
    {"textDocument/hover", lsp_hover, ANALYSED | AT},
    {"textDocument/definition", lsp_definition, ANALYSED | AT},
    {"textDocument/references", lsp_references, ANALYSED | AT},
    {"textDocument/documentHighlight", lsp_highlight, ANALYSED | AT},
    {"textDocument/rename", lsp_rename, ANALYSED | AT},
    {"textDocument/prepareRename", lsp_prepare_rename, ANALYSED | AT},
    {"textDocument/completion", lsp_completion, ANALYSED | AT},
    {"textDocument/signatureHelp", lsp_signature, ANALYSED | AT},
    {"textDocument/formatting", lsp_format, DOCUMENT},
    {"textDocument/inlayHint", lsp_inlay_hints, ANALYSED},
    {"textDocument/documentSymbol", lsp_symbols, ANALYSED},
    {"textDocument/codeAction", lsp_code_actions, ANALYSED},
    {"textDocument/semanticTokens/full", lsp_tokens, ANALYSED},
};

static const struct Method *find_method(const char *name) {
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(methods[i].name, name) == 0) return &methods[i];
    return NULL;
}

typedef struct Handling {
    Request request;
    const struct Method *method;
    json_t *result;
} Handling;

/// Finds what the method needs. False: the request has failed.
static bool prepare(Request *r, int flags) {
    const json_t *document = json_object_get(r->params, "textDocument");
    const char *uri = json_string_value(json_object_get(document, "uri"));
    r->document = uri ? document_find(r->server, uri) : NULL;
    if (!(flags & (ANALYSED | DOCUMENT))) return true;
    if (!r->document) return request_fail(r, RPC_PARAMS, "this document is not open"), false;
    if (!(flags & ANALYSED)) return true;
    r->analysis = document_analysis(r->server, r->document);
    if (!r->analysis) return request_fail(r, RPC_INTERNAL, "out of memory"), false;
    Position p;
    if (!(flags & AT)) return true;
    if (!json_read_position(json_object_get(r->params, "position"), &p))
        return request_fail(r, RPC_PARAMS, "a position is missing"), false;
    r->offset = map_offset(&r->analysis->map, p);
    return true;
}

static void handle(Ctx *ctx, void *arg) {
    Handling *h = arg;
    h->request.ctx = ctx;
    if (prepare(&h->request, h->method->flags)) h->result = h->method->handle(&h->request);
}

/// Calls the method and answers, unless it is a notification.
static void run_method(Server *s, const struct Method *method, const json_t *id,
                       const json_t *params) {
    Handling h = {.request = {.server = s, .params = params}, .method = method};
    Ctx *ctx = ctx_create(NULL);
    CtxStatus status = ctx ? ctx_protect(ctx, handle, &h) : CTX_NO_MEMORY;
    if (id && status != CTX_OK)
        send_error(s, id, RPC_INTERNAL, "the request failed: out of memory, or a bug of Tegula");
    else if (id && h.request.error)
        send_error(s, id, h.request.error, h.request.message);
    else if (id)
        send_result(s, id, h.result);
    else
        json_decref(h.result);
    if (ctx) ctx_destroy(ctx);
}

/// Answers a request that cannot be run; returns whether it was one.
static bool refuse(Server *s, const struct Method *method, const json_t *id) {
    if (!method && id)
        send_error(s, id, RPC_NO_METHOD, "there is no such method");
    else if (method && !s->initialized && !(method->flags & EARLY) && id)
        send_error(s, id, RPC_NOT_INITIALIZED, "`initialize` comes first");
    else if (method && s->shut_down && id)
        send_error(s, id, RPC_INVALID, "the server was shut down");
    else
        return !method || (!s->initialized && !(method->flags & EARLY));
    return true;
}

static void dispatch(Server *s, const json_t *message) {
    const json_t *id = json_object_get(message, "id"), *params = json_object_get(message, "params");
    const char *name = json_string_value(json_object_get(message, "method"));
    bool has_id = json_is_integer(id) || json_is_string(id);
    if (!name) { // an answer to a request of the server is no error
        bool answer = json_object_get(message, "result") || json_object_get(message, "error");
        if (!answer) send_error(s, has_id ? id : NULL, RPC_INVALID, "this is not a request");
        return;
    }
    if (id && !has_id) {
        send_error(s, NULL, RPC_INVALID, "an id is a number or a text");
        return;
    }
    if (strcmp(name, "exit") == 0) {
        s->exited = true;
        return;
    }
    const struct Method *method = find_method(name);
    if (!refuse(s, method, id)) run_method(s, method, id, params);
}

static void take_message(Server *s, const char *body, size_t n) {
    json_error_t error;
    json_t *message = json_loadb(body, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!message)
        send_error(s, NULL, RPC_PARSE, error.text);
    else if (!json_is_object(message))
        send_error(s, NULL, RPC_INVALID, "a message is an object");
    else
        dispatch(s, message);
    json_decref(message);
}

/// Does a part of the work that waits for a pause: analyses a document and sends its messages, or
/// tries the element types of one kernel. False: there is none.
static bool work_in_pause(Server *s) {
    for (Document *d = s->documents; d; d = d->next) {
        if (d->told) continue;
        publish_diagnostics(s, d);
        return true;
    }
    for (Document *d = s->documents; d; d = d->next) {
        bool found = false;
        if (!d->analysis || !analysis_try_types(d->analysis, &found)) continue;
        if (found) publish_diagnostics(s, d);
        return true;
    }
    return false;
}

static void serve(Server *s) {
    while (!s->exited && !s->transport.closed) {
        if (!transport_waits(&s->transport) && work_in_pause(s)) continue;
        const char *body;
        size_t n;
        switch (transport_read(&s->transport, &body, &n)) {
        case MESSAGE_END: return;
        case MESSAGE_READ: take_message(s, body, n); break;
        case MESSAGE_MALFORMED:
            send_error(s, NULL, RPC_PARSE, "a header without Content-Length");
            break;
        case MESSAGE_TOO_LARGE:
            send_error(s, NULL, RPC_INVALID, "the message is larger than 64 MiB");
            break;
        }
    }
}

int cmd_lsp(Ctx *ctx, const Options *o) {
    (void)ctx;
    Server s = {.transport = {.in = STDIN_FILENO, .out = STDOUT_FILENO}};
    s.paths = calloc((size_t)o->paths.n + 1, sizeof *s.paths);
    for (int i = 0; s.paths && i < o->paths.n; i++) {
        s.paths[s.n_paths] = strdup(o->paths.at[i]);
        if (s.paths[s.n_paths]) s.n_paths++;
    }
    signal(SIGPIPE, SIG_IGN);
    serve(&s);
    while (s.documents) document_close(&s, s.documents);
    for (int i = 0; i < s.n_paths; i++) free(s.paths[i]);
    free(s.paths);
    for (int i = 0; i < s.n_roots; i++) free(s.roots[i]);
    free(s.roots);
    transport_close(&s.transport);
    return s.exited && s.shut_down ? EXIT_OK : EXIT_USER;
}
