// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The language server: private declarations of `tegula lsp`.
//
// The server reads one message after another (transport.c) and answers it (server.c). Documents
// (document.c) are the texts of the editor. A document is analysed when no message waits, or when a
// request needs it: a fresh context holds the program, its names and its messages, and replaces the
// context of the older text. So memory does not grow with the number of edits. Requests work in a
// context of their own, which ends with the answer.
#ifndef TOOLS_TEGULA_LSP_LSP_H
#define TOOLS_TEGULA_LSP_LSP_H

#include "frontend/names.h"
#include "frontend/program.h"
#include "tools/tegula/cli.h"

#include <jansson.h>

/* ---- transport.c: messages ------------------------------------------------------------------ */

typedef struct Transport {
    int in, out;
    char *data; // bytes read and not used yet: [at, n)
    size_t at, n, cap;
    bool closed; // no more input, or the client no longer reads
} Transport;

typedef enum MessageStatus {
    MESSAGE_READ,
    MESSAGE_END,       // the client is gone
    MESSAGE_MALFORMED, // no message, but a later one can be read
    MESSAGE_TOO_LARGE, // it was skipped
} MessageStatus;

/// Reads the next message: *body, of *n bytes, is valid until the next call.
MessageStatus transport_read(Transport *t, const char **body, size_t *n);
/// Whether a part of a message has arrived.
bool transport_waits(Transport *t);
/// Sends a message and releases it. NULL, for lack of memory, sends nothing.
void transport_send(Transport *t, json_t *message);
void transport_close(Transport *t);

/* ---- positions.c: places in texts ------------------------------------------------------------ */

/// A place as editors count: lines from 0, UTF-16 code units from 0.
typedef struct Position {
    int64_t line, character;
} Position;

/// A text and the starts of its lines. Editors end a line at \n, \r\n and \r, the compiler at \n.
typedef struct TextMap {
    const char *text;
    size_t n;
    VEC(size_t) lines; // of editors
    VEC(size_t) rows;  // of the compiler
} TextMap;

void text_map(Ctx *ctx, TextMap *map, const char *text, size_t n);
/// Returns the byte of a position; positions outside of the text become its nearest place.
size_t map_offset(const TextMap *map, Position p);
Position map_position(const TextMap *map, size_t offset);
/// Returns the bytes of a place of the compiler.
size_t map_begin(const TextMap *map, Loc loc);
size_t map_end(const TextMap *map, Loc loc);

json_t *json_position(Position p);
json_t *json_range(const TextMap *map, size_t begin, size_t end);
json_t *json_range_of(const TextMap *map, Loc loc);
/// False: it is no position.
bool json_read_position(const json_t *j, Position *out);

/* ---- uri.c ----------------------------------------------------------------------------------- */

/// Returns the absolute path of a file's URI without `.` and `..`; other URIs as they are.
char *uri_path(Ctx *ctx, const char *uri);
char *path_uri(Ctx *ctx, const char *path);
/// Joins a path to the folder of a file, without `.` and `..`. A `..` behind a link leaves the
/// folder of its target, as in the compiler.
char *path_beside(Ctx *ctx, const char *file, const char *path);
/// Returns the one absolute path of a file, without links, as far as the path exists. A relative
/// path that does not exist stays as it is.
char *canonical_path(Ctx *ctx, const char *path);
bool is_below(const char *path, const char *folder);

/* ---- workspace.c: folders and imports ---------------------------------------------------------
 */

typedef struct Server Server;

/// The import `path` in the file `from` is the source `found`.
typedef struct ImportNote {
    const char *from, *path, *found;
} ImportNote;

/// Adds a folder of the workspace by its URI, unless it is known.
void workspace_add(Ctx *ctx, Server *s, const char *uri);
void workspace_remove(Ctx *ctx, Server *s, const char *uri);
/// Returns the folders that are searched for imports of a file, in order; *n of them. A relative
/// path of -I or `paths` is meant in each folder of the workspace, that of the file first, and then
/// in the server's own folder.
const char *const *import_folders(Ctx *ctx, const Server *s, const char *file, int *n);

/* ---- document.c ------------------------------------------------------------------------------ */

/// The meaning of one text of a document.
typedef struct Analysis {
    Ctx *ctx;
    uint16_t file;
    Program *program; // NULL: too many errors
    NameTable names;
    TextMap map;
    const Server *server;
    VEC(ImportNote) imports;
    VEC(const char *) wanted; // canonical paths of all files that imports may mean, found or not
    CtxStatus status;
    int typed;       // number of kernels whose other element types were tried
    uint64_t budget; // of steps, for that
} Analysis;

typedef struct Document {
    char *uri, *path, *text;
    char *real; // the canonical path
    size_t n;
    int64_t version;
    Analysis *analysis; // NULL: none of the present text yet
    bool told;          // the client has the messages of `analysis`
    struct Document *next;
} Document;

struct Server {
    Transport transport;
    Document *documents;
    char **paths; // folders to search for imports
    int n_paths;
    char **roots; // folders of the workspace
    int n_roots;
    bool initialized, shut_down, exited;
};

Document *document_find(Server *s, const char *uri);
/// Returns the open document of a path, also of another path of that file, or NULL.
const Document *document_at(Ctx *ctx, const Server *s, const char *path);
/// Opens a document, or replaces its text. False: out of memory.
bool document_open(Ctx *ctx, Server *s, const char *uri, const char *text, size_t n,
                   int64_t version);
/// Replaces the bytes [begin, end). False: out of memory.
bool document_replace(Document *d, size_t begin, size_t end, const char *text, size_t n);
/// The document, or a file that it may import, has changed.
void document_outdated(Server *s, const Document *d);
/// All documents are outdated: files or links may have changed on disk.
void documents_outdated(Ctx *ctx, Server *s);
void document_close(Server *s, Document *d);
/// Returns the analysis of the present text; NULL: out of memory.
Analysis *document_analysis(Server *s, Document *d);
/// Analyses a text in the place of a document; analysis_free ends it.
Analysis *analysis_create(const Server *s, const char *path, const char *text, size_t n,
                          bool with_types);
void analysis_free(Analysis *a);
/// Tries the element types of the next kernel, which takes longer than all else. False: all are
/// done. *found: there are new messages.
bool analysis_try_types(Analysis *a, bool *found);
/// Returns the source that an import of the file `from` means, or `path` for one of the library.
const char *import_target(const Analysis *a, const char *from, const char *path);
/// The importer of an analysis: open documents come before files.
const Importer *document_importer(Ctx *ctx, Analysis *a);
/// The URI of a source of an analysis; that of the editor, if it is open. Files of the library are
/// written to a folder of the user, so that editors can show them; NULL if that fails.
const char *source_uri(Ctx *ctx, const Analysis *a, uint16_t file);

/* ---- requests -------------------------------------------------------------------------------- */

enum {
    RPC_PARSE = -32700,
    RPC_INVALID = -32600,
    RPC_NO_METHOD = -32601,
    RPC_PARAMS = -32602,
    RPC_INTERNAL = -32603,
    RPC_NOT_INITIALIZED = -32002,
    RPC_REQUEST_FAILED = -32803,
};

typedef struct Request {
    Server *server;
    Ctx *ctx; // ends with the answer
    const json_t *params;
    Document *document;
    Analysis *analysis;
    size_t offset; // of params.position
    int error;     // not 0: the request fails with `message`
    const char *message;
} Request;

/// Returns the result, or NULL for `null` or after request_fail.
typedef json_t *RequestHandler(Request *r);
json_t *request_fail(Request *r, int error, const char *message);

RequestHandler lsp_hover, lsp_definition, lsp_references, lsp_highlight, lsp_rename,
    lsp_prepare_rename, lsp_completion, lsp_signature, lsp_format, lsp_inlay_hints, lsp_symbols,
    lsp_code_actions, lsp_tokens;

/// Sends the messages of a document.
void publish_diagnostics(Server *s, Document *d);
/// The legend of lsp_tokens.
json_t *token_legend(void);

/* ---- names.c: questions to the table of names -------------------------------------------------
 */

/// A name in the text: the definition (-1: a builtin, an element type), and its place.
typedef struct NameAt {
    Name name;
    int definition;
    bool option;
} NameAt;

/// Finds the name at a byte of the analysed text. False: there is none.
bool name_at(const Analysis *a, size_t offset, NameAt *out);
/// The source of a definition's head: `kernel f<T: float>(x: T[N])`.
const char *definition_head(Ctx *ctx, const Analysis *a, const Definition *d);
/// The comment `///` of a definition, or NULL.
const char *definition_doc(const Definition *d);
/// Finds a builtin's row by name, or NULL.
const BuiltinText *builtin_text(Ctx *ctx, const char *name);
/// `dot(a, b, precision = ieee|tf32|tf32x3|fast)`.
const char *builtin_head(Ctx *ctx, const BuiltinText *b);
/// The innermost expression around a byte that has a type, or NULL.
const TypeNote *type_at(const Analysis *a, size_t offset);
/// A location, or NULL if its file cannot be shown.
json_t *json_location(Ctx *ctx, const Analysis *a, Loc loc);

/* ---- context.c: the text in front of the cursor -----------------------------------------------
 */

typedef enum CursorPlace { IN_CODE, IN_COMMENT, IN_STRING, IN_IMPORT } CursorPlace;

enum { MAX_OPEN = 256 };

/// A call or another bracket that is open at the cursor.
typedef struct OpenBracket {
    char kind;
    const char *name; // of the called function, in the text; NULL: none
    size_t n_name;
    int commas;
    size_t argument; // where the argument at the cursor begins
} OpenBracket;

typedef struct Cursor {
    CursorPlace place;
    size_t word;      // where the word at the cursor begins
    size_t string;    // where the string at the cursor begins
    const char *last; // the word or sign in front of that word
    size_t n_last;
    int n_open;
    OpenBracket open[MAX_OPEN]; // innermost last
} Cursor;

void cursor_scan(const char *text, size_t offset, Cursor *out);
bool is_name_byte(char c);

#endif
