/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_shim -- C door to what RocksDB's C API leaves out: its text log, its events
 * and the check of a file's blocks. No exception leaves it.
 */
#ifndef STORE_KV_SHIM_H
#define STORE_KV_SHIM_H

#ifdef __cplusplus
extern "C" {
#endif

struct rocksdb_options_t;
struct rocksdb_t;

enum kv_shim_level { KV_SHIM_DEBUG, KV_SHIM_INFO, KV_SHIM_WARN, KV_SHIM_ERROR };

/* Runs on RocksDB's threads; must not call RocksDB. text is one line. */
typedef void kv_shim_log(enum kv_shim_level level, const char *text);

/*
 * Sends the text log and the events of a database opened with these options to
 * log. Debian's build aborts when its own log file meets a full disk, so there
 * is none. Returns 0, or -1 when out of memory.
 */
int kv_shim_redirect(struct rocksdb_options_t *options, kv_shim_log *log);

/*
 * Reads each table file of the database from the disk, block by block. what is
 * NULL for a sound file. Returns 0, or -1 when out of memory.
 */
typedef void kv_shim_report(void *ctx, const char *file, const char *what);
int kv_shim_check_files(struct rocksdb_t *db, kv_shim_report *report, void *ctx);

#ifdef __cplusplus
}
#endif

#endif
