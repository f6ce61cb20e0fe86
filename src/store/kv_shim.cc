// SPDX-License-Identifier: Apache-2.0
// Every handle of RocksDB's C API begins with the C++ object it wraps, which is how this file reaches
// options that the C API has no setter for.
#include "store/kv_shim.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/listener.h>
#include <rocksdb/metadata.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace
{

enum kv_shim_level level_of(rocksdb::InfoLogLevel level)
{
    switch (level) {
    case rocksdb::WARN_LEVEL:
        return KV_SHIM_WARN;
    case rocksdb::ERROR_LEVEL:
    case rocksdb::FATAL_LEVEL:
        return KV_SHIM_ERROR;
    default:
        return KV_SHIM_DEBUG;
    }
}

class TextLog : public rocksdb::Logger
{
  public:
    explicit TextLog(kv_shim_log *f) : Logger(rocksdb::WARN_LEVEL), log(f)
    {
    }
    using rocksdb::Logger::Logv;
    void Logv(const char *format, va_list args) override
    {
        Logv(rocksdb::INFO_LEVEL, format, args);
    }
    void Logv(const rocksdb::InfoLogLevel level, const char *format, va_list args) override
    {
        char line[400];
        if (level < GetInfoLogLevel())
            return;
        vsnprintf(line, sizeof line, format, args);
        line[strcspn(line, "\r\n")] = 0;
        log(level_of(level), line);
    }

  private:
    kv_shim_log *log;
};

class Events : public rocksdb::EventListener
{
  public:
    explicit Events(kv_shim_log *f) : log(f)
    {
    }
    void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status *status) override
    {
        say(KV_SHIM_ERROR, "background error: ", status->ToString());
    }
    void OnErrorRecoveryCompleted(rocksdb::Status status) override
    {
        say(KV_SHIM_WARN, "recovered from a background error: ", status.ToString());
    }
    void OnStallConditionsChanged(const rocksdb::WriteStallInfo &info) override
    {
        static const char *const names[] = { "delayed", "stopped", "normal" };
        size_t i = static_cast<size_t>(info.condition.cur);
        if (i < 3)
            say(i == 2 ? KV_SHIM_INFO : KV_SHIM_WARN, "writes are ", names[i]);
    }

  private:
    void say(enum kv_shim_level level, const char *what, const std::string &text) noexcept
    {
        char line[400];
        snprintf(line, sizeof line, "%s%s", what, text.c_str());
        log(level, line);
    }
    kv_shim_log *log;
};

} // namespace

extern "C" int kv_shim_redirect(struct rocksdb_options_t *options, kv_shim_log *log)
{
    try {
        rocksdb::Options *rep = reinterpret_cast<rocksdb::Options *>(options);
        rep->info_log = std::make_shared<TextLog>(log);
        rep->listeners.push_back(std::make_shared<Events>(log));
        return 0;
    } catch (...) {
        return -1;
    }
}

extern "C" int kv_shim_check_files(struct rocksdb_t *db, kv_shim_report *report, void *ctx)
{
    try {
        rocksdb::DB *rep = *reinterpret_cast<rocksdb::DB **>(db);
        std::vector<rocksdb::LiveFileMetaData> files;
        rep->GetLiveFilesMetaData(&files);
        for (const rocksdb::LiveFileMetaData &file : files) {
            std::string path = file.db_path + file.name; // the name begins with a slash
            rocksdb::SstFileReader reader{ rocksdb::Options() };
            rocksdb::Status status = reader.Open(path);
            if (status.ok())
                status = reader.VerifyChecksum();
            std::string what = status.ok() ? "" : status.ToString();
            report(ctx, path.c_str(), status.ok() ? nullptr : what.c_str());
        }
        return 0;
    } catch (...) {
        return -1;
    }
}
