// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A store has one table of entries. Each entry has a checksum of all its fields.
//
// A damaged database is neither repaired nor replaced under its name, because other processes may
// have it open. Instead, a new generation with its own number takes its place. Databases are
// created and replaced under the lock of a file beside them, which the system releases when the
// process ends.
#include "cache/store.h"

#include "cache/folder.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { SCHEMA = 1, APPLICATION = 0x7467756c, HOUR = 3600 };

typedef enum Statement {
    GET,
    PUT,
    PUT_LATE,
    TOUCH,
    REMOVE,
    TOTAL,
    OLDEST,
    EACH,
    STATEMENTS
} Statement;

static const char *const texts[STATEMENTS] = {
    [GET] = "SELECT kind, about, value, sum, bytes, made, used FROM entry WHERE key = ?1",
    [PUT] = "INSERT OR REPLACE INTO entry(key, kind, about, value, sum, bytes, made, used) "
            "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [PUT_LATE] = "INSERT INTO entry(key, kind, about, value, sum, bytes, made, used) "
                 "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT(key) DO UPDATE SET "
                 "kind = excluded.kind, about = excluded.about, value = excluded.value, "
                 "sum = excluded.sum, bytes = excluded.bytes, made = excluded.made, "
                 "used = excluded.used WHERE excluded.made > entry.made",
    [TOUCH] = "UPDATE entry SET used = ?2 WHERE key = ?1",
    [REMOVE] = "DELETE FROM entry WHERE key = ?1",
    [TOTAL] = "SELECT count(*), coalesce(sum(bytes), 0) FROM entry",
    [OLDEST] = "SELECT key, bytes, used FROM entry ORDER BY used, bytes DESC",
    [EACH] = "SELECT kind, about, value, sum, bytes, made, used, key, rowid FROM entry "
             "ORDER BY used DESC",
};

struct Store {
    Folder folder;
    int generation;
    int error;    // errno of the last connection that failed, or 0
    int patience; // milliseconds
    int64_t limit;
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    char path[FOLDER_PATH];
};

/* ---- errors -------------------------------------------------------------------------------- */

const char *store_status_text(StoreStatus status) {
    switch (status) {
    case STORE_OK: return "no error";
    case STORE_ABSENT: return "no such entry";
    case STORE_BUSY: return "other processes hold it";
    case STORE_FULL: return "no space is left";
    case STORE_MEMORY: return "out of memory";
    default: return "it cannot be written or read";
    }
}

static bool is_damage(int code) {
    code &= 0xff;
    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_FORMAT;
}

static StoreStatus status_of(int code) {
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_DONE:
    case SQLITE_ROW: return STORE_OK;
    case SQLITE_BUSY:
    case SQLITE_PROTOCOL: // a lock came and went during the wait
    case SQLITE_LOCKED: return STORE_BUSY;
    case SQLITE_FULL: return STORE_FULL;
    case SQLITE_NOMEM: return STORE_MEMORY;
    default: return STORE_REFUSED;
    }
}

/* ---- opening ------------------------------------------------------------------------------- */

static void close_database(Store *s) {
    for (int i = 0; i < STATEMENTS; i++) sqlite3_finalize(s->statements[i]);
    memset(s->statements, 0, sizeof s->statements);
    sqlite3_close(s->db);
    s->db = NULL;
}

static int run_sql(Store *s, const char *sql) {
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL);
}

static int pragma_number(Store *s, const char *sql, int *out) {
    sqlite3_stmt *q;
    int code = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);
    if (code) return code;
    code = sqlite3_step(q);
    *out = code == SQLITE_ROW ? sqlite3_column_int(q, 0) : 0;
    sqlite3_finalize(q);
    return code == SQLITE_ROW ? SQLITE_OK : code;
}

/// A write-ahead log needs memory shared between processes, which a network file system does not
/// have.
static int set_journal(Store *s) {
    if (s->folder.remote) return run_sql(s, "PRAGMA journal_mode = DELETE");
    int code = run_sql(s, "PRAGMA journal_mode = WAL");
    return code ? code
                : run_sql(s, "PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 4194304");
}

static int make_schema(Store *s) {
    char sql[512];
    snprintf(sql, sizeof sql,
             "BEGIN IMMEDIATE;"
             "CREATE TABLE entry(key BLOB PRIMARY KEY, kind INTEGER NOT NULL, about TEXT NOT NULL,"
             " value BLOB NOT NULL, sum BLOB NOT NULL, bytes INTEGER NOT NULL,"
             " made INTEGER NOT NULL, used INTEGER NOT NULL);"
             "CREATE INDEX entry_used ON entry(used, bytes);"
             "PRAGMA application_id = %d; PRAGMA user_version = %d;"
             "COMMIT",
             APPLICATION, SCHEMA);
    return run_sql(s, sql);
}

/// Sets up the connection; creates the schema in an empty database. SQLITE_SCHEMA: the database is
/// of another version or another program.
static int prepare_database(Store *s) {
    int version = 0, application = 0, tables = 0;
    sqlite3_busy_timeout(s->db, s->patience);
    int code = run_sql(s, "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON");
    if (!code) code = pragma_number(s, "PRAGMA user_version", &version);
    if (!code) code = pragma_number(s, "PRAGMA application_id", &application);
    if (!code) code = pragma_number(s, "SELECT count(*) FROM sqlite_schema", &tables);
    if (code) return code;
    bool fresh = !version && !application && !tables;
    if (!fresh && (version != SCHEMA || application != APPLICATION)) return SQLITE_SCHEMA;
    code = set_journal(s);
    if (!code && fresh) code = make_schema(s);
    // The right version without the right table means damage.
    for (int i = 0; !code && i < STATEMENTS; i++)
        if (sqlite3_prepare_v3(s->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &s->statements[i],
                               NULL))
            code = sqlite3_errcode(s->db) == SQLITE_ERROR ? SQLITE_CORRUPT : sqlite3_errcode(s->db);
    return code;
}

static int open_database(Store *s) {
    folder_file(&s->folder, s->generation, s->path);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int code = sqlite3_open_v2(s->path, &s->db, flags | SQLITE_OPEN_NOFOLLOW, NULL);
    if (!code) code = prepare_database(s);
    bool of_system = (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN;
    s->error = of_system ? sqlite3_system_errno(s->db) : 0;
    if (code) close_database(s);
    return code;
}

static void describe_store_error(char why[STORE_WHY], const Store *s, int code) {
    if (code == SQLITE_SCHEMA)
        snprintf(why, STORE_WHY, "%.400s is of another version, or not a store of Tegula's",
                 s->path);
    else
        snprintf(why, STORE_WHY, "%.400s: %s%s%.60s", s->path, sqlite3_errstr(code),
                 s->error ? ": " : "", s->error ? strerror(s->error) : "");
}

static bool passes_integrity_check(Store *s) {
    sqlite3_stmt *q;
    if (sqlite3_prepare_v2(s->db, "PRAGMA integrity_check(1)", -1, &q, NULL)) return false;
    const char *text =
        sqlite3_step(q) == SQLITE_ROW ? (const char *)sqlite3_column_text(q, 0) : NULL;
    bool sound = text && strcmp(text, "ok") == 0;
    sqlite3_finalize(q);
    return sound;
}

/// Reconnects after SQLite has found damage. The lock is held, and no connection is open. SQLite
/// also reports damage if the disk could not be read once. So a database stays if it is readable
/// and sound now, or if it cannot be read at all.
static int connect_again(Store *s) {
    int code = open_database(s);
    if (!code && passes_integrity_check(s)) return SQLITE_OK;
    if (code && !is_damage(code)) return code;
    close_database(s);
    if (!folder_can_read(&s->folder, s->generation)) return SQLITE_IOERR;
    folder_discard(&s->folder, s->generation++);
    return open_database(s);
}

/// Connects to the newest generation, or to a new one if that is damaged.
static int connect_newest(Store *s) {
    s->generation = folder_newest(&s->folder);
    int code = open_database(s);
    return is_damage(code) ? connect_again(s) : code;
}

StoreStatus store_connect(const char *folder, int64_t limit, int patience, Store **out,
                          char why[STORE_WHY]) {
    Store *s = *out = calloc(1, sizeof *s);
    if (!s) {
        snprintf(why, STORE_WHY, "out of memory");
        return STORE_MEMORY;
    }
    s->limit = limit;
    s->patience = patience;
    int code = SQLITE_CANTOPEN;
    if (folder_open(&s->folder, folder, why)) {
        int lock = folder_lock(&s->folder, patience);
        code = connect_newest(s);
        folder_unlock(lock);
        if (!code) return STORE_OK;
        describe_store_error(why, s, code);
    }
    free(s);
    *out = NULL;
    return status_of(code);
}

Store *store_open(const char *folder, int64_t limit, char why[STORE_WHY]) {
    Store *s;
    store_connect(folder, limit, STORE_PATIENCE, &s, why);
    return s;
}

void store_patience(Store *s, int ms) {
    s->patience = ms;
    if (s->db) sqlite3_busy_timeout(s->db, ms);
}

void store_close(Store *s) {
    if (!s) return;
    close_database(s);
    free(s);
}

const char *store_path(const Store *s) {
    return s->path;
}

StoreStatus store_claim(const Store *s, StoreKey key, int *claim) {
    uint64_t number;
    memcpy(&number, key.bytes, sizeof number);
    int error = folder_claim(&s->folder, number, claim);
    return error == EAGAIN ? STORE_BUSY : error ? STORE_REFUSED : STORE_OK;
}

void store_release(int claim) {
    folder_release(claim);
}

/// Replaces a damaged database by another generation, unless another process already has.
static bool replace_database(Store *s) {
    close_database(s);
    int lock = folder_lock(&s->folder, s->patience), newest = folder_newest(&s->folder);
    bool same = newest == s->generation;
    s->generation = newest;
    int code = same ? connect_again(s) : open_database(s);
    folder_unlock(lock);
    return !code;
}

/* ---- statements ---------------------------------------------------------------------------- */

/// Ends a statement. If it failed because of damage, it is not repeated. The next statement runs on
/// a new generation, or on the same one if that is readable now.
static StoreStatus end_statement(Store *s, sqlite3_stmt *q, int code) {
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    if (!is_damage(code)) return status_of(code);
    int generation = s->generation;
    replace_database(s);
    return s->generation == generation ? STORE_REFUSED : STORE_ABSENT;
}

static StoreStatus run_with_key(Store *s, Statement which, StoreKey key, int64_t number) {
    if (!s->db) return STORE_REFUSED;
    sqlite3_stmt *q = s->statements[which];
    sqlite3_bind_blob(q, 1, key.bytes, sizeof key.bytes, SQLITE_STATIC);
    if (which == TOUCH) sqlite3_bind_int64(q, 2, number);
    return end_statement(s, q, sqlite3_step(q));
}

StoreStatus store_remove(Store *s, StoreKey key) {
    return run_with_key(s, REMOVE, key, 0);
}

/* ---- entries ------------------------------------------------------------------------------- */

StoreKey store_hash(const void *data, size_t n) {
    XXH128_canonical_t canonical;
    StoreKey key;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, n));
    memcpy(key.bytes, canonical.digest, sizeof key.bytes);
    return key;
}

/// Covers all fields but `used`, which changes.
static void checksum_entry(const StoreEntry *e, StoreKey *out) {
    int64_t numbers[3] = {e->kind, (int64_t)e->bytes, e->made};
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, e->key.bytes, sizeof e->key.bytes);
    XXH3_128bits_update(&state, numbers, sizeof numbers);
    XXH3_128bits_update(&state, e->about, strlen(e->about) + 1);
    XXH3_128bits_update(&state, e->value, e->bytes);
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
    memcpy(out->bytes, canonical.digest, sizeof out->bytes);
}

/// The state of a row. UNREAD: SQLite had no memory to read it.
typedef enum RowState { SOUND, DAMAGED, UNREAD } RowState;

/// Reads the entry in a row of GET or EACH. Its pointers are valid until the next step of the
/// statement.
static RowState read_entry_row(sqlite3_stmt *q, StoreEntry *e) {
    StoreKey sum;
    e->kind = (StoreKind)sqlite3_column_int(q, 0);
    e->about = (const char *)sqlite3_column_text(q, 1);
    e->value = sqlite3_column_blob(q, 2);
    e->bytes = (size_t)sqlite3_column_bytes(q, 2);
    e->made = sqlite3_column_int64(q, 5);
    e->used = sqlite3_column_int64(q, 6);
    const void *kept = sqlite3_column_blob(q, 3);
    bool whole = e->about && kept && sqlite3_column_bytes(q, 3) == sizeof sum.bytes &&
                 sqlite3_column_int64(q, 4) == (int64_t)e->bytes;
    if (sqlite3_errcode(sqlite3_db_handle(q)) == SQLITE_NOMEM) return UNREAD;
    if (!whole) return DAMAGED;
    if (!e->value) e->value = "";
    checksum_entry(e, &sum);
    return memcmp(sum.bytes, kept, sizeof sum.bytes) == 0 ? SOUND : DAMAGED;
}

static bool read_key(sqlite3_stmt *q, int column, StoreKey *key) {
    const void *bytes = sqlite3_column_blob(q, column);
    if (!bytes || sqlite3_column_bytes(q, column) != sizeof key->bytes) return false;
    memcpy(key->bytes, bytes, sizeof key->bytes);
    return true;
}

/// Reads the entry in a row of EACH, with its key.
static RowState read_whole_row(sqlite3_stmt *q, StoreEntry *e) {
    bool keyed = read_key(q, 7, &e->key);
    RowState row = read_entry_row(q, e);
    return row == SOUND && !keyed ? DAMAGED : row;
}

/// Once an hour is enough to tell which entries are in use, and saves a write for each read.
static void touch_entry(Store *s, StoreKey key, int64_t used) {
    int64_t now = time(NULL);
    if (now - used >= HOUR || now < used) run_with_key(s, TOUCH, key, now);
}

StoreStatus store_get(Store *s, StoreKey key, StoreKind kind, void **value, size_t *bytes) {
    if (!s->db) return STORE_REFUSED;
    StoreEntry e = {.key = key};
    sqlite3_stmt *q = s->statements[GET];
    sqlite3_bind_blob(q, 1, key.bytes, sizeof key.bytes, SQLITE_STATIC);
    int code = sqlite3_step(q);
    bool found = code == SQLITE_ROW;
    RowState row = found ? read_entry_row(q, &e) : DAMAGED;
    if (row == SOUND && e.kind == kind) {
        *value = malloc(e.bytes + 1);
        *bytes = e.bytes;
        if (*value) memcpy(*value, e.value, e.bytes);
    }
    StoreStatus status = end_statement(s, q, code);
    if (status) return status;
    if (row == UNREAD) return STORE_MEMORY;
    if (found && row == DAMAGED) store_remove(s, key);
    if (!found || row == DAMAGED || e.kind != kind) return STORE_ABSENT;
    if (!*value) return STORE_MEMORY;
    touch_entry(s, key, e.used);
    return STORE_OK;
}

static int insert_entry(Store *s, Statement how, const StoreEntry *e, const StoreKey *sum) {
    sqlite3_stmt *q = s->statements[how];
    sqlite3_bind_blob(q, 1, e->key.bytes, sizeof e->key.bytes, SQLITE_STATIC);
    sqlite3_bind_int(q, 2, (int)e->kind);
    sqlite3_bind_text(q, 3, e->about, -1, SQLITE_STATIC);
    sqlite3_bind_blob64(q, 4, e->value, e->bytes, SQLITE_STATIC);
    sqlite3_bind_blob(q, 5, sum->bytes, sizeof sum->bytes, SQLITE_STATIC);
    sqlite3_bind_int64(q, 6, (int64_t)e->bytes);
    sqlite3_bind_int64(q, 7, e->made);
    sqlite3_bind_int64(q, 8, e->used);
    int code = sqlite3_step(q);
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    return code;
}

/// Frees a tenth of the limit, so that not every new entry causes a removal.
static StoreStatus make_store_room(Store *s) {
    StoreSize size;
    int removed;
    if (!s->limit) return STORE_OK;
    StoreStatus status = store_size(s, &size);
    if (status || size.bytes <= s->limit) return status;
    return store_prune(s, INT64_MIN, s->limit - s->limit / 10, &removed);
}

static StoreStatus put_entry(Store *s, Statement how, const StoreEntry *entry) {
    if (!s->db) return STORE_REFUSED;
    StoreEntry e = *entry;
    StoreKey sum;
    int64_t now = time(NULL);
    if (!e.made) e.made = now;
    if (!e.used) e.used = now;
    checksum_entry(&e, &sum);
    int code = insert_entry(s, how, &e, &sum);
    if (is_damage(code))
        code = replace_database(s) ? insert_entry(s, how, &e, &sum) : SQLITE_CORRUPT;
    if (status_of(code)) return status_of(code);
    make_store_room(s); // the entry is stored, even if this fails
    return STORE_OK;
}

StoreStatus store_put(Store *s, const StoreEntry *entry) {
    return put_entry(s, PUT, entry);
}

StoreStatus store_put_late(Store *s, const StoreEntry *entry) {
    return put_entry(s, PUT_LATE, entry);
}

StoreStatus store_each(Store *s, bool values, bool (*visit)(void *user, const StoreEntry *entry),
                       void *user, int *damaged) {
    if (!s->db) return STORE_REFUSED;
    sqlite3_stmt *q = s->statements[EACH];
    int code, bad = 0;
    bool on = true;
    while (on && (code = sqlite3_step(q)) == SQLITE_ROW) {
        StoreEntry e;
        RowState row = read_whole_row(q, &e);
        if (row == UNREAD) {
            code = SQLITE_NOMEM;
            break;
        }
        bad += row == DAMAGED;
        if (!values) e.value = NULL;
        if (row == SOUND) on = visit(user, &e);
    }
    if (damaged) *damaged = bad;
    return end_statement(s, q, on ? code : SQLITE_OK);
}

/* ---- size ---------------------------------------------------------------------------------- */

StoreStatus store_size(Store *s, StoreSize *out) {
    int pages = 0, page = 0;
    *out = (StoreSize){0};
    if (!s->db) return STORE_REFUSED;
    sqlite3_stmt *q = s->statements[TOTAL];
    int code = sqlite3_step(q);
    if (code == SQLITE_ROW) {
        out->entries = sqlite3_column_int(q, 0);
        out->bytes = sqlite3_column_int64(q, 1);
    }
    StoreStatus status = end_statement(s, q, code);
    if (status || !s->db) return status;
    pragma_number(s, "PRAGMA page_count", &pages);
    pragma_number(s, "PRAGMA page_size", &page);
    out->file = (int64_t)pages * page;
    return STORE_OK;
}

/// The longest unused entries come first, so the loop ends at the first one that stays.
static StoreStatus remove_oldest(Store *s, int64_t before, int64_t limit, int *removed) {
    StoreSize size;
    StoreStatus status = store_size(s, &size);
    while (!status && size.entries > 0) {
        sqlite3_stmt *q = s->statements[OLDEST];
        StoreKey key;
        int code = sqlite3_step(q);
        bool sound = code == SQLITE_ROW && read_key(q, 0, &key);
        int64_t bytes = sqlite3_column_int64(q, 1), used = sqlite3_column_int64(q, 2);
        status = end_statement(s, q, code);
        bool stays = used >= before && (limit < 0 || size.bytes <= limit);
        if (status || !sound || stays) break;
        status = store_remove(s, key);
        size.bytes -= bytes;
        size.entries--;
        ++*removed;
    }
    return status;
}

StoreStatus store_prune(Store *s, int64_t before, int64_t limit, int *removed) {
    *removed = 0;
    if (!s->db) return STORE_REFUSED;
    int code = run_sql(s, "BEGIN IMMEDIATE");
    if (code) return status_of(code);
    StoreStatus status = remove_oldest(s, before, limit, removed);
    if (status == STORE_ABSENT) return STORE_OK; // damage: no entries are left
    if (!s->db) return STORE_REFUSED;
    code = run_sql(s, status ? "ROLLBACK" : "COMMIT");
    return status ? status : status_of(code);
}

/// Damaged rows are removed by row number, since their keys may be damaged.
StoreStatus store_verify(Store *s, int *sound, int *damaged) {
    *sound = *damaged = 0;
    if (!s->db) return STORE_REFUSED;
    sqlite3_stmt *q = s->statements[EACH];
    int code;
    while ((code = sqlite3_step(q)) == SQLITE_ROW) {
        StoreEntry e;
        char sql[64];
        RowState row = read_whole_row(q, &e);
        if (row == UNREAD && (code = SQLITE_NOMEM)) break;
        *(row == SOUND ? sound : damaged) += 1;
        if (row == SOUND) continue;
        snprintf(sql, sizeof sql, "DELETE FROM entry WHERE rowid = %lld",
                 (long long)sqlite3_column_int64(q, 8));
        if ((code = run_sql(s, sql))) break;
    }
    return end_statement(s, q, code);
}

StoreStatus store_compact(Store *s) {
    if (!s->db) return STORE_REFUSED;
    int code = run_sql(s, "VACUUM");
    return status_of(code ? code : run_sql(s, "PRAGMA wal_checkpoint(TRUNCATE)"));
}

/* ---- other files --------------------------------------------------------------------------- */

StoreStatus store_export(Store *s, const char *path) {
    int sound, damaged;
    sqlite3_stmt *q;
    StoreStatus status = store_verify(s, &sound, &damaged);
    if (status || !s->db) return status;
    int code = sqlite3_prepare_v2(s->db, "VACUUM INTO ?1", -1, &q, NULL);
    if (!code) sqlite3_bind_text(q, 1, path, -1, SQLITE_STATIC);
    if (!code) code = sqlite3_step(q);
    sqlite3_finalize(q);
    return status_of(code);
}

StoreStatus store_each_in(const char *path, bool (*visit)(void *user, const StoreEntry *entry),
                          void *user, int *damaged) {
    Store from = {.limit = 0};
    int version = 0, application = 0;
    *damaged = 0;
    int code = sqlite3_open_v2(path, &from.db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    if (!code) code = pragma_number(&from, "PRAGMA user_version", &version);
    if (!code) code = pragma_number(&from, "PRAGMA application_id", &application);
    if (!code && (version != SCHEMA || application != APPLICATION)) code = SQLITE_SCHEMA;
    if (!code) code = sqlite3_prepare_v2(from.db, texts[EACH], -1, &from.statements[EACH], NULL);
    while (!code && (code = sqlite3_step(from.statements[EACH])) == SQLITE_ROW) {
        StoreEntry e;
        RowState row = read_whole_row(from.statements[EACH], &e);
        code = row == UNREAD ? SQLITE_NOMEM : SQLITE_OK;
        *damaged += row == DAMAGED;
        if (row == SOUND && !visit(user, &e)) break;
    }
    close_database(&from);
    return status_of(code);
}

typedef struct Import {
    Store *into;
    int added;
    StoreStatus status;
} Import;

static bool import_one(void *user, const StoreEntry *e) {
    Import *i = user;
    void *old = NULL;
    size_t bytes;
    StoreStatus there = store_get(i->into, e->key, e->kind, &old, &bytes);
    free(old);
    if (there == STORE_OK) return true;
    i->status = store_put(i->into, e);
    i->added += i->status == STORE_OK;
    return i->status == STORE_OK;
}

StoreStatus store_import(Store *s, const char *path, int *added, int *damaged) {
    Import import = {.into = s};
    StoreStatus status = store_each_in(path, import_one, &import, damaged);
    *added = import.added;
    return import.status ? import.status : status;
}
